// Runs and states that are numbered above what the next one will be.
// Params:  $space string
// Returns: found int
// Index:   namespace_space, trajectory_arrival, state_arrival
OPTIONAL MATCH (n:Namespace {space: $space})
RETURN COUNT { MATCH (t:Trajectory) WHERE t.space = $space AND t.seq > n.last_run }
     + COUNT { MATCH (s:State) WHERE s.space = $space AND s.id > n.last_state } AS found
