// What every run with an outcome was about.
// Params:  $space string
// Returns: environment string, task string, id string
// Index:   trajectory_arrival
MATCH (t:Trajectory) WHERE t.space = $space AND t.seq > 0 AND (t.success IS NOT NULL OR t.reward IS NOT NULL)
RETURN t.environment AS environment, t.task AS task, t.id AS id
