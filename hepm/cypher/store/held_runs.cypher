// Every run whole, in order of arrival.
// Params:  $space string
// Returns: told map
// Index:   trajectory_arrival
MATCH (t:Trajectory) WHERE t.space = $space AND t.seq > 0
RETURN t {.*} AS told ORDER BY t.seq
