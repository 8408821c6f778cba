// Runs whose wording states have kept.
// Params:  $space string
// Returns: trajectory string, states int
// Index:   state_arrival
MATCH (s:State) WHERE s.space = $space AND s.id > 0
RETURN s.trajectory AS trajectory, count(s) AS states
