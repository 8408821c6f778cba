// What is stored under some ids.
// Params:  $uids list of strings
// Returns: id string, digest string, success boolean
// Index:   trajectory_uid
UNWIND $uids AS uid
MATCH (t:Trajectory {uid: uid})
RETURN t.id AS id, t.digest AS digest, t.success AS success
