// Of a task's successful runs the one with fewest steps, ties by id, and the one that counts.
// Params:  $task_uid string
// Returns: seq int, id string, environment string, task string, success boolean, steps int, counted boolean, record string
// Index:   trajectory_task
MATCH (t:Trajectory {task_uid: $task_uid}) WHERE t.success
WITH t ORDER BY t.steps, t.id
WITH collect(t) AS runs
UNWIND runs[..1] + [run IN runs[1..] WHERE run.counted] AS t
RETURN t.seq AS seq, t.id AS id, t.environment AS environment, t.task AS task, t.success AS success, t.steps AS steps,
       t.counted AS counted, t.record AS record
