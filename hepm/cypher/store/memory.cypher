// What the memory says of itself; no row where there is none yet.
// Params:  none
// Returns: schema_version int, embedder string, dimensions int, revision int, counting string, states_per_move int, lessons_removed int, success_from float
// Index:   memory_key
MATCH (m:Memory {key: 'memory'})
RETURN m.schema_version AS schema_version, m.embedder AS embedder, m.dimensions AS dimensions,
       m.revision AS revision, m.counting AS counting, m.states_per_move AS states_per_move,
       coalesce(m.lessons_removed, 0) AS lessons_removed, coalesce(m.success_from, 1.0) AS success_from
