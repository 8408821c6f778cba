// Delete the states of a namespace.
// Params:  $space string
// Index:   state_arrival
MATCH (s:State) WHERE s.space = $space AND s.id > 0 DETACH DELETE s
