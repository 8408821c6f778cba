// When some runs ended.
// Params:  $uids list of strings
// Returns: id string, ended_at float
// Index:   trajectory_uid
UNWIND $uids AS uid
MATCH (t:Trajectory {uid: uid}) WHERE t.ended_at IS NOT NULL
RETURN t.id AS id, t.ended_at AS ended_at
