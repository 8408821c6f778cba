// Say whether runs count.
// Params:  $rows list of maps {run_uid, counted}
// Index:   trajectory_uid
UNWIND $rows AS row
MATCH (t:Trajectory {uid: row.run_uid}) SET t.counted = row.counted
