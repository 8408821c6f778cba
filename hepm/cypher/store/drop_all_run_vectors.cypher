// Take away the vector of every run.
// Params:  none
MATCH (t:Trajectory) WHERE t.said_vector IS NOT NULL
REMOVE t.said_vector
