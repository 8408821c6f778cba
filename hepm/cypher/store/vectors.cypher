// Every vector of a namespace.
// Params:  $space string
// Returns: vector bytes, floats int
// Index:   state_arrival, trajectory_arrival, lesson_changed
MATCH (s:State) WHERE s.space = $space AND s.id > 0 AND s.kept AND s.vector IS NOT NULL
RETURN s.vector AS vector, size(s.embedding) AS floats
UNION ALL
MATCH (t:Trajectory) WHERE t.space = $space AND t.seq > 0 AND t.said_vector IS NOT NULL
RETURN t.said_vector AS vector, NULL AS floats
UNION ALL
MATCH (l:Lesson) WHERE l.space = $space AND l.changed > 0 AND l.vector IS NOT NULL
RETURN l.vector AS vector, size(l.embedding) AS floats
