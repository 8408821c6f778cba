// Mirrors that see this number grow read all lessons again.
// Params:  none
// Index:   memory_key
MATCH (m:Memory {key: 'memory'})
SET m.lessons_removed = coalesce(m.lessons_removed, 0) + 1
