// The properties of the memory, as they are.
// Params:  none
// Returns: header map
// Index:   memory_key
MATCH (m:Memory {key: 'memory'})
RETURN m {.schema_version, .embedder, .dimensions, .revision, .counting, .states_per_move, .lessons_removed,
          .success_from} AS header
