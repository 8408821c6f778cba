// Labelled runs that count, the latest stored first.
// Params:  $space string, $before int, $most int
// Returns: seq int, id string, success boolean, sequence string, environment string, task string, user string, said string, vector bytes
// Index:   trajectory_arrival
MATCH (t:Trajectory) WHERE t.space = $space AND t.seq < $before AND t.counted AND t.success IS NOT NULL
RETURN t.seq AS seq, t.id AS id, t.success AS success, t.sequence AS sequence, t.environment AS environment,
       t.task AS task, t.user AS user, left(t.said, 600) AS said, t.said_vector AS vector
ORDER BY seq DESC LIMIT $most
