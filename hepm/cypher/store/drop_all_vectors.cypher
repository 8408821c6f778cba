// Take away every vector of every namespace.
// Params:  none
MATCH (s:State) WHERE s.embedding IS NOT NULL
REMOVE s.embedding, s.vector
