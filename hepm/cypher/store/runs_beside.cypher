// Runs with an outcome and those of their tasks: of each task and outcome the ones stored last. A run without a task stands alone.
// Params:  $space string, $uids list of strings, $latest int
// Returns: environment string, task string, id string
// Index:   trajectory_uid, trajectory_arrival
MATCH (r:Trajectory) WHERE r.uid IN $uids
WITH collect(DISTINCT [r.environment, r.task, CASE r.task WHEN '' THEN r.id ELSE '' END]) AS tasks
MATCH (t:Trajectory)
WHERE t.space = $space AND t.seq > 0 AND (t.success IS NOT NULL OR t.reward IS NOT NULL)
  AND [t.environment, t.task, CASE t.task WHEN '' THEN t.id ELSE '' END] IN tasks
WITH t ORDER BY t.seq DESC
WITH t.environment AS environment, t.task AS task, CASE t.task WHEN '' THEN t.id ELSE '' END AS alone,
     t.success AS success, collect(t.id)[..$latest] AS ids
UNWIND ids AS id
RETURN environment, task, id
