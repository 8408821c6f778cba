// Delete what was shown in runs, and what was told of them.
// Params:  $uids list of strings
// Index:   showing_uid
UNWIND $uids AS uid
MATCH (s:Showing {uid: uid})
DETACH DELETE s
