// Delete states.
// Params:  $rows list of maps {uid}
// Index:   state_uid
UNWIND $rows AS row
MATCH (s:State {uid: row.uid})
DETACH DELETE s
