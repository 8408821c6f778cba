// When some runs ended whose end is known, and how.
// Params:  $space string, $seqs list of ints
// Returns: seq int, ended_at float, success boolean
// Index:   trajectory_arrival
MATCH (t:Trajectory) WHERE t.space = $space AND t.seq IN $seqs AND t.ended_at IS NOT NULL
RETURN t.seq AS seq, t.ended_at AS ended_at, t.success AS success
