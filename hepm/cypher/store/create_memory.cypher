// Make the one node of the memory's books, unless another process was first.
// Params:  $counting string, $states_per_move int, $schema_version int, $success_from float
// Index:   memory_key
MERGE (m:Memory {key: 'memory'})
ON CREATE SET m.embedder = '', m.dimensions = 0, m.revision = 0, m.counting = $counting,
              m.states_per_move = $states_per_move, m.schema_version = $schema_version,
              m.success_from = $success_from
