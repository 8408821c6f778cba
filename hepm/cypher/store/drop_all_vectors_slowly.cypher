// Take away every vector of every namespace, some thousands a transaction: their former values fill a server's memory.
// Params:  none
MATCH (s:State) WHERE s.embedding IS NOT NULL
CALL (s) {
    REMOVE s.embedding, s.vector
} IN TRANSACTIONS OF 1000 ROWS
