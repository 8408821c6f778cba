// Runs of a task that lack its hash, as those that a hepm before schema version 11 stored as failed or unlabelled.
// Params:  $space string
// Returns: uid string, environment string, task string
// Index:   trajectory_arrival
MATCH (t:Trajectory) WHERE t.space = $space AND t.seq > 0 AND t.task <> '' AND t.task_uid IS NULL
RETURN t.uid AS uid, t.environment AS environment, t.task AS task
