// Runs stored before a row, the latest first.
// Params:  $space string, $before int, $limit int
// Returns: seq int, id string, record string
// Index:   trajectory_arrival
MATCH (t:Trajectory) WHERE t.space = $space AND t.seq > 0 AND t.seq < $before
RETURN t.seq AS seq, t.id AS id, t.record AS record ORDER BY seq DESC LIMIT $limit
