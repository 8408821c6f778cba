// Name the reward from which on runs are successes.
// Params:  $success_from float
// Index:   memory_key
MATCH (m:Memory {key: 'memory'}) SET m.success_from = $success_from
