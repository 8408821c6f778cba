// Records whose reward or tags changed, and nothing that is counted.
// Params:  $rows list of maps {run_uid, record, reward}
// Index:   trajectory_uid
UNWIND $rows AS row
MATCH (t:Trajectory {uid: row.run_uid}) SET t.record = row.record, t.reward = row.reward
