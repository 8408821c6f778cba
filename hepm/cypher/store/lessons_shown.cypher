// How many lessons searches find, and how many of them were ever shown; notes, which are one user's, do not count.
// Params:  $space string
// Returns: live int, shown int
// Index:   lesson_changed
MATCH (l:Lesson) WHERE l.space = $space AND l.changed > 0 AND l.live AND NOT l:Notes
RETURN count(l) AS live, count(CASE WHEN l.shown > 0 THEN 1 END) AS shown
