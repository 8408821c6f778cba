// Lessons that have no vector, in order of arrival.
// Params:  $space string
// Returns: id string, text string
// Index:   lesson_changed
MATCH (l:Lesson) WHERE l.space = $space AND l.changed > 0 AND l.vector IS NULL
RETURN l.id AS id, l.text AS text ORDER BY l.seq
