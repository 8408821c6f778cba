// Delete runs.
// Params:  $rows list of maps {run_uid}
// Index:   trajectory_uid
UNWIND $rows AS row
MATCH (t:Trajectory {uid: row.run_uid})
DETACH DELETE t
