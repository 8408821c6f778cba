// Which tokens recorded some runs at a server.
// Params:  $uids list of strings
// Returns: id string, token string
// Index:   trajectory_uid
UNWIND $uids AS uid
MATCH (t:Trajectory {uid: uid}) WHERE t.token <> ''
RETURN t.id AS id, t.token AS token
