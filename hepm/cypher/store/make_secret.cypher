// Give the memory a secret, unless it has one.
// Params:  $secret string
// Index:   memory_key
MATCH (m:Memory {key: 'memory'})
SET m.writing = true
WITH m SET m.secret = coalesce(m.secret, $secret)
