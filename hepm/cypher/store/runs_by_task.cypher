// What every run was about.
// Params:  $space string
// Returns: environment string, task string, id string
// Index:   trajectory_arrival
MATCH (t:Trajectory) WHERE t.space = $space AND t.seq > 0
RETURN t.environment AS environment, t.task AS task, t.id AS id
