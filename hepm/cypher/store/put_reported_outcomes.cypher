// Write down how runs ended.
// Params:  $space string, $namespace string, $rows list of maps {showing_uid, run, success}
// Index:   showing_uid
UNWIND $rows AS row
MERGE (s:Showing {uid: row.showing_uid})
ON CREATE SET s.space = $space, s.namespace = $namespace, s.run = row.run
SET s.told = row.success
