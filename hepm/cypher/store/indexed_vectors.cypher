// Vectors that are under an index, as bytes and as the index sees them.
// Params:  $space string
// Returns: vector bytes, embedding list
// Index:   state_arrival, lesson_changed
MATCH (s:State) WHERE s.space = $space AND s.id > 0 AND s.kept AND s.vector IS NOT NULL
RETURN s.vector AS vector, s.embedding AS embedding
UNION ALL
MATCH (l:Lesson) WHERE l.space = $space AND l.changed > 0 AND l.vector IS NOT NULL
RETURN l.vector AS vector, l.embedding AS embedding
