// What the memory says of itself; no row where there is none yet.
// Params:  none
// Returns: embedder string, dimensions int, revision int, counting string, states_per_move int, schema_version int, lessons_removed int
// Index:   memory_key
MATCH (m:Memory {key: 'memory'})
RETURN m.embedder AS embedder, m.dimensions AS dimensions, m.revision AS revision, m.counting AS counting,
       m.states_per_move AS states_per_move, m.schema_version AS schema_version,
       coalesce(m.lessons_removed, 0) AS lessons_removed
