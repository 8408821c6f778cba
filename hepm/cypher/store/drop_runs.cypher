// Delete runs.
// Params:  $uids list of strings
// Index:   trajectory_uid
UNWIND $uids AS uid
MATCH (t:Trajectory {uid: uid})
DETACH DELETE t
