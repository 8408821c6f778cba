// Outcomes of stored runs.
// Params:  $uids list of strings
// Returns: id string, success boolean
// Index:   trajectory_uid
UNWIND $uids AS uid
MATCH (t:Trajectory {uid: uid})
RETURN t.id AS id, t.success AS success
