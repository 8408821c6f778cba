// Take away every lesson's vector, in every namespace.
// Params:  none
MATCH (l:Lesson) WHERE l.embedding IS NOT NULL
REMOVE l.embedding, l.vector
