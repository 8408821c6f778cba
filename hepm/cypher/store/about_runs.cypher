// What is told of some runs.
// Params:  $uids list of strings
// Returns: seq int, id string, environment string, task string, model string, user string, success boolean, steps int, ended_at float, said string
// Index:   trajectory_uid
UNWIND $uids AS uid
MATCH (t:Trajectory {uid: uid})
RETURN t.seq AS seq, t.id AS id, t.environment AS environment, t.task AS task, t.model AS model, t.user AS user,
       t.success AS success, t.steps AS steps, t.ended_at AS ended_at, left(t.said, 600) AS said
