// Of the latest runs that are of no experiment: where they took place, their task, and what was said.
// Params:  $space string, $most int
// Returns: seq int, environment string, task string, said string
// Index:   trajectory_arrival
MATCH (t:Trajectory) WHERE t.space = $space AND t.seq > 0 AND t.arm IS NULL AND t.success IS NOT NULL
WITH t ORDER BY t.seq DESC LIMIT $most
RETURN t.seq AS seq, t.environment AS environment, t.task AS task, t.said AS said
