// Give the memory a secret, unless it has one.
// Params:  $rows list of {secret}
// Index:   memory_key
UNWIND $rows AS row
MATCH (m:Memory {key: 'memory'})
SET m.secret = coalesce(m.secret, row.secret)
