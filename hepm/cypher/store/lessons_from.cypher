// Lessons that name one of the runs, in order of arrival. Looks at each: runs are forgotten seldom.
// Params:  $space string, $runs list of strings
// Returns: seq int, record string
// Index:   lesson_changed
MATCH (l:Lesson) WHERE l.space = $space AND l.changed > 0 AND any(run IN l.runs WHERE run IN $runs)
RETURN l.seq AS seq, l.record AS record ORDER BY seq
