// Store runs; each row is a node's properties.
// Params:  $rows list of maps
// Index:   trajectory_uid
UNWIND $rows AS row
CREATE (t:Trajectory)
SET t = row
