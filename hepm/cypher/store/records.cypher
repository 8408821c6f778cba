// Every run in order of arrival.
// Params:  $space string
// Returns: id string, record string, counted boolean
// Index:   trajectory_arrival
MATCH (t:Trajectory) WHERE t.space = $space AND t.seq > 0
RETURN t.id AS id, t.record AS record, t.counted AS counted ORDER BY t.seq
