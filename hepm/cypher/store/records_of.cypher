// Records of some runs.
// Params:  $uids list of strings
// Returns: id string, record string
// Index:   trajectory_uid
UNWIND $uids AS uid
MATCH (t:Trajectory {uid: uid})
RETURN t.id AS id, t.record AS record
