// Delete what was shown in runs, and what was told of them.
// Params:  $rows list of maps {showing_uid}
// Index:   showing_uid
UNWIND $rows AS row
MATCH (s:Showing {uid: row.showing_uid})
DETACH DELETE s
