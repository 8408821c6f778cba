// Those of some runs with the tag OUTCOME_BY. In a record the tags come before the turns.
// Params:  $uids list of strings
// Returns: id string
// Index:   trajectory_uid
UNWIND $uids AS uid
MATCH (t:Trajectory {uid: uid})
WHERE split(t.record, '"turns":[')[0] CONTAINS '"hepm:outcome-by":'
RETURN t.id AS id
