// Keep answers, the last under each uid; not one about a run that is not stored, or a user who has no notes.
// Params:  $space string, $namespace string, $rows list of maps {key_uid, key, step, run, run_uid, user, user_uid, text, usage}
// Index:   answer_uid, trajectory_uid, user_uid
UNWIND $rows AS row
WITH row
WHERE (row.run_uid IS NULL OR EXISTS { MATCH (:Trajectory {uid: row.run_uid}) })
  AND (row.user_uid IS NULL OR EXISTS { MATCH (:User {uid: row.user_uid}) })
MERGE (a:Answer {uid: row.key_uid})
SET a = row {.key, .step, .run, .run_uid, .user, .user_uid, .text, .usage, uid: row.key_uid, space: $space, namespace: $namespace}
