// Every lesson whole but for its indexed vector, in order of arrival.
// Params:  $space string
// Returns: told map
// Index:   lesson_changed
MATCH (l:Lesson) WHERE l.space = $space AND l.changed > 0
RETURN l {.*, embedding: NULL} AS told ORDER BY l.seq
