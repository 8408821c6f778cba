// Take the vectors of a namespace's lessons away.
// Params:  $space string
// Index:   lesson_changed
MATCH (l:Lesson) WHERE l.space = $space AND l.changed > 0
REMOVE l.embedding, l.vector
