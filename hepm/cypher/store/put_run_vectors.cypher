// Attach vectors to runs by their row number; numbers that are gone are passed over.
// Params:  $space string, $rows list of maps {of, said_vector}
// Index:   trajectory_arrival
UNWIND $rows AS row
MATCH (t:Trajectory {space: $space, seq: row.of})
SET t.said_vector = row.said_vector
