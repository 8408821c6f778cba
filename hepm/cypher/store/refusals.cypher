// The calls that were refused in the latest runs with any, as JSON: [[source, target], ...].
// Params:  $space string, $most int
// Returns: refused string
// Index:   trajectory_refused
MATCH (t:Trajectory) WHERE t.space = $space AND t.refusals > 0 AND t.seq > 0
RETURN t.refused AS refused ORDER BY t.seq DESC LIMIT $most
