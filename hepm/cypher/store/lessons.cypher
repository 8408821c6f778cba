// Lessons that a revision above a given one touched, in order of arrival.
// Params:  $space string, $newer_than int
// Returns: seq int, id string, record string, shown int, uses int, successes int, vector bytes
// Index:   lesson_changed
MATCH (l:Lesson) WHERE l.space = $space AND l.changed > $newer_than
RETURN l.seq AS seq, l.id AS id, l.record AS record, l.shown AS shown, l.uses AS uses, l.successes AS successes,
       l.vector AS vector ORDER BY seq
