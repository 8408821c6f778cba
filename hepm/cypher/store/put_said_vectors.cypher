// Attach the vectors of what users said.
// Params:  $rows list of maps {uid, vector}
// Index:   trajectory_uid
UNWIND $rows AS row
MATCH (t:Trajectory {uid: row.uid})
SET t.said_vector = row.vector
