// Set again what is told of stored runs beside their records; each row holds properties.
// Params:  $space string, $rows list of maps
// Index:   trajectory_arrival
UNWIND $rows AS row
MATCH (t:Trajectory) WHERE t.space = $space AND t.seq = row.seq
SET t += row
