// Take the vectors of a namespace's runs away.
// Params:  $space string
// Index:   trajectory_arrival
MATCH (t:Trajectory) WHERE t.space = $space AND t.seq > 0 REMOVE t.said_vector
