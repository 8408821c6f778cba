// Lessons that name one of the runs, in order of arrival. Looks at each: runs are forgotten seldom.
// Params:  $space string, $runs list of strings
// Returns: seq int, id string, record string, shown int, uses int, successes int, vector bytes
// Index:   lesson_changed
MATCH (l:Lesson) WHERE l.space = $space AND l.changed > 0 AND any(run IN l.runs WHERE run IN $runs)
RETURN l.seq AS seq, l.id AS id, l.record AS record, l.shown AS shown, l.uses AS uses, l.successes AS successes,
       NULL AS vector ORDER BY seq
