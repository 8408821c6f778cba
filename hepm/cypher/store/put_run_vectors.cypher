// Attach vectors to runs by their row number; numbers that are gone are passed over.
// Params:  $space string, $rows list of maps {seq, vector}
// Index:   trajectory_arrival
UNWIND $rows AS row
MATCH (t:Trajectory {space: $space, seq: row.seq})
SET t.said_vector = row.vector
