// Forget which edges the runs of a namespace took.
// Params:  $space string
// Index:   trajectory_arrival
MATCH (t:Trajectory)-[p:TOOK]->() WHERE t.space = $space AND t.seq > 0 DELETE p
