// Every lesson, readable or not, in order of arrival.
// Params:  $space string
// Returns: id string, record string, user string, live boolean, runs list, shown int, uses int, successes int, vector bytes
// Index:   lesson_changed
MATCH (l:Lesson) WHERE l.space = $space AND l.changed > 0
RETURN l.id AS id, l.record AS record, l.user AS user, l.live AS live, l.runs AS runs, l.shown AS shown,
       l.uses AS uses, l.successes AS successes, l.vector AS vector ORDER BY l.seq
