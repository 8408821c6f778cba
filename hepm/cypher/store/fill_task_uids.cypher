// Note for stored runs the hash of their task.
// Params:  $rows list of maps {run, task_uid}
// Index:   trajectory_uid
UNWIND $rows AS row
MATCH (t:Trajectory {uid: row.run})
SET t.task_uid = row.task_uid
