// What is stored under some ids, and whether that has the tag OUTCOME_BY. In a record the tags come before the turns.
// Params:  $uids list of strings
// Returns: id string, digest string, success boolean, derived boolean
// Index:   trajectory_uid
UNWIND $uids AS uid
MATCH (t:Trajectory {uid: uid})
RETURN t.id AS id, t.digest AS digest, t.success AS success,
       split(t.record, '"turns":[')[0] CONTAINS '"hepm:outcome-by":' AS derived
