// Delete answers about runs.
// Params:  $rows list of maps {run_uid}
// Index:   answer_run
UNWIND $rows AS row
MATCH (a:Answer {run_uid: row.run_uid})
DELETE a
