// Attach vectors to states by id; ids that are gone are passed over.
// Params:  $space string, $rows list of maps {of, embedding, vector}
// Index:   state_arrival
UNWIND $rows AS row
MATCH (s:State {space: $space, id: row.of}) WHERE s.kept
SET s.embedding = row.embedding, s.vector = row.vector
