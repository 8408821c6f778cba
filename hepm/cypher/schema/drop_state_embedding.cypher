// Another embedder has come, with other dimensions.
// Params:  none
DROP INDEX state_embedding IF EXISTS
