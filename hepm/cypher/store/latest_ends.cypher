// When the runs that were stored last ended; null where that is unknown.
// Params:  $space string, $most int
// Returns: ended_at float
// Index:   trajectory_arrival
MATCH (t:Trajectory) WHERE t.space = $space AND t.seq >= 0
RETURN t.ended_at AS ended_at
ORDER BY t.seq DESC LIMIT $most
