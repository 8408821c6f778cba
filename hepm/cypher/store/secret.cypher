// The secret of the memory; null if it has none yet.
// Params:  none
// Returns: secret string
// Index:   memory_key
MATCH (m:Memory {key: 'memory'}) RETURN m.secret AS secret
