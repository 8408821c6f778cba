// The vectors of what the user said in some runs.
// Params:  $uids list of strings
// Returns: id string, vector bytes
// Index:   trajectory_uid
UNWIND $uids AS uid
MATCH (t:Trajectory {uid: uid}) WHERE t.said_vector IS NOT NULL
RETURN t.id AS id, t.said_vector AS vector
