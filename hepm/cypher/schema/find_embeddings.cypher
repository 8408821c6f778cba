// The vector indexes and their dimensions.
// Params:  none
// Returns: name string, dimensions int
SHOW VECTOR INDEXES YIELD name, options
WHERE name IN ['state_embedding', 'lesson_embedding']
RETURN name, options.indexConfig.`vector.dimensions` AS dimensions
