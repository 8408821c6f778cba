// Set some of what the memory says of itself.
// Params:  $values map
// Index:   memory_key
MATCH (m:Memory {key: 'memory'}) SET m += $values
