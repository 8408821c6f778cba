// Another embedder has come, with other dimensions.
// Params:  none
DROP INDEX lesson_embedding IF EXISTS
