// Of a task's successful runs the one that counts under "shortest".
// Params:  $task_uid string
// Returns: seq int, id string, environment string, task string, success boolean, steps int, counted boolean, record string
// Index:   trajectory_task
MATCH (t:Trajectory {task_uid: $task_uid}) WHERE t.success
RETURN t.seq AS seq, t.id AS id, t.environment AS environment, t.task AS task, t.success AS success, t.steps AS steps,
       t.counted AS counted, t.record AS record
ORDER BY steps, id LIMIT 1
