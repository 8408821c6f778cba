// Reset damaged properties of the memory.
// Params:  $values map
// Index:   memory_key
MATCH (m:Memory {key: 'memory'})
SET m += $values
