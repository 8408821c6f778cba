// Keep answers, the last under each uid; not one about a run that is not stored, or a user who has no notes.
// Params:  $rows list of maps {uid, run_uid, user_uid, properties}
// Index:   answer_uid, trajectory_uid, user_uid
UNWIND $rows AS row
WITH row
WHERE (row.run_uid IS NULL OR EXISTS { MATCH (:Trajectory {uid: row.run_uid}) })
  AND (row.user_uid IS NULL OR EXISTS { MATCH (:User {uid: row.user_uid}) })
MERGE (a:Answer {uid: row.uid})
SET a = row.properties
