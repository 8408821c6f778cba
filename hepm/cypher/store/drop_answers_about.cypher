// Delete answers about runs.
// Params:  $uids list of strings
// Index:   answer_run
UNWIND $uids AS uid
MATCH (a:Answer {run_uid: uid})
DELETE a
