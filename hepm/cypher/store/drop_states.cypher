// Delete states.
// Params:  $uids list of strings
// Index:   state_uid
UNWIND $uids AS uid
MATCH (s:State {uid: uid})
DETACH DELETE s
