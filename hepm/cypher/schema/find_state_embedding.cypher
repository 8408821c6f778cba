// The dimensions of the vector index over what agents knew; no row where there is none.
// Params:  none
// Returns: dimensions int
SHOW VECTOR INDEXES YIELD name, options
WHERE name = 'state_embedding'
RETURN options.indexConfig.`vector.dimensions` AS dimensions
