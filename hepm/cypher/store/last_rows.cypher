// The last run and the last lesson of a namespace, and its name as its nodes hold it.
// Params:  $space string
// Returns: run int, lesson int, name string
// Index:   trajectory_arrival, lesson_changed
RETURN coalesce(COLLECT { MATCH (t:Trajectory) WHERE t.space = $space AND t.seq > 0 RETURN max(t.seq) }[0], 0) AS run,
       coalesce(COLLECT { MATCH (l:Lesson) WHERE l.space = $space AND l.changed > 0 RETURN max(l.seq) }[0], 0) AS lesson,
       COLLECT { MATCH (t:Trajectory) WHERE t.space = $space AND t.seq > 0 RETURN t.namespace LIMIT 1 }[0] AS name
