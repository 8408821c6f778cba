// Note which migrations have run.
// Params:  $schema_version int
// Index:   memory_key
MATCH (m:Memory {key: 'memory'}) SET m.schema_version = $schema_version
