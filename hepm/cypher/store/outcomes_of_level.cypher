// How many of the latest sessions of a level succeeded, of those with an outcome, and how many there are.
// Params:  $space string, $level string, $most int
// Returns: successes int, sessions int
// Index:   trajectory_level
MATCH (t:Trajectory) WHERE t.space = $space AND t.level = $level AND t.seq > 0 AND t.success IS NOT NULL
WITH t.success AS success, t.seq AS seq ORDER BY seq DESC LIMIT $most
RETURN count(CASE WHEN success THEN 1 END) AS successes, count(success) AS sessions
