// The texts and vectors of states by their numbers.
// Params:  $space string, $ids list
// Returns: summary string, vector bytes
// Index:   state_arrival
UNWIND $ids AS id
MATCH (s:State) WHERE s.space = $space AND s.id = id AND s.vector IS NOT NULL
RETURN s.summary AS summary, s.vector AS vector
