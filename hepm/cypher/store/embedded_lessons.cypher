// Live lessons with a vector.
// Params:  $space string
// Returns: id string, seq int, vector bytes
// Index:   lesson_changed
MATCH (l:Lesson) WHERE l.space = $space AND l.changed > 0 AND l.live AND l.vector IS NOT NULL
RETURN l.id AS id, l.seq AS seq, l.vector AS vector ORDER BY seq
