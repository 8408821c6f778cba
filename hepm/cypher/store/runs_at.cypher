// Labelled runs that count, by row number, without their vectors.
// Params:  $space string, $seqs list of ints
// Returns: seq int, id string, success boolean, sequence string, environment string, task string, user string, said string, vector bytes
// Index:   trajectory_arrival
MATCH (t:Trajectory) WHERE t.space = $space AND t.seq IN $seqs AND t.counted AND t.success IS NOT NULL
RETURN t.seq AS seq, t.id AS id, t.success AS success, t.sequence AS sequence, t.environment AS environment,
       t.task AS task, t.user AS user, left(t.said, 600) AS said, NULL AS vector ORDER BY seq
