// Some stored runs.
// Params:  $uids list of strings
// Returns: seq int, id string, environment string, task string, success boolean, steps int, counted boolean, record string
// Index:   trajectory_uid
UNWIND $uids AS uid
MATCH (t:Trajectory {uid: uid})
RETURN t.seq AS seq, t.id AS id, t.environment AS environment, t.task AS task, t.success AS success, t.steps AS steps,
       t.counted AS counted, t.record AS record
