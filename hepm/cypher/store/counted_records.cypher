// Records of the runs that count, in order of arrival.
// Params:  $space string
// Returns: id string, seq int, record string
// Index:   trajectory_arrival
MATCH (t:Trajectory) WHERE t.space = $space AND t.seq > 0 AND t.counted
RETURN t.id AS id, t.seq AS seq, t.record AS record ORDER BY t.seq
