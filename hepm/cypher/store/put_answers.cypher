// Keep answers, the first under each uid; not one about a run that is gone.
// Params:  $rows list of maps {uid, run_uid, properties}
// Index:   answer_uid, trajectory_uid
UNWIND $rows AS row
WITH row WHERE row.run_uid IS NULL OR EXISTS { MATCH (:Trajectory {uid: row.run_uid}) }
MERGE (a:Answer {uid: row.uid})
ON CREATE SET a += row.properties
