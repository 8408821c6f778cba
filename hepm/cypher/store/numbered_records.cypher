// Records of all runs, in order of arrival.
// Params:  $space string
// Returns: seq int, id string, record string
// Index:   trajectory_arrival
MATCH (t:Trajectory) WHERE t.space = $space AND t.seq > 0
RETURN t.seq AS seq, t.id AS id, t.record AS record ORDER BY seq
