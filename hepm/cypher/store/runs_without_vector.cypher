// Runs that have words and no vector, in order of arrival.
// Params:  $space string
// Returns: seq int, said string
// Index:   trajectory_arrival
MATCH (t:Trajectory) WHERE t.space = $space AND t.seq > 0 AND t.said <> '' AND t.said_vector IS NULL
RETURN t.seq AS seq, t.said AS said ORDER BY seq
