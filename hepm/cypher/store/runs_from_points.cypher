// The first labelled run that counts from each of some row numbers on.
// Params:  $space string, $points list of ints, $before int
// Returns: seq int, id string, success boolean, sequence string, environment string, task string, user string, said string, vector bytes
// Index:   trajectory_arrival
UNWIND $points AS point
CALL (point) {
    MATCH (t:Trajectory)
    WHERE t.space = $space AND t.seq >= point AND t.seq < $before AND t.counted AND t.success IS NOT NULL
    RETURN t ORDER BY t.seq LIMIT 1
}
WITH DISTINCT t
RETURN t.seq AS seq, t.id AS id, t.success AS success, t.sequence AS sequence, t.environment AS environment,
       t.task AS task, t.user AS user, left(t.said, 600) AS said, t.said_vector AS vector ORDER BY seq
