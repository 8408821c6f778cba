// Set again what is told of stored runs beside their records; each row holds properties.
// Params:  $rows list of maps
// Index:   trajectory_uid
UNWIND $rows AS row
MATCH (t:Trajectory {uid: row.uid})
SET t += row
