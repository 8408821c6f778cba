// Of each day since 1970 on which labelled runs ended: how many succeeded, and how many failed.
// Params:  $space string
// Returns: day int, succeeded int, failed int
// Index:   trajectory_arrival
MATCH (t:Trajectory)
WHERE t.space = $space AND t.seq > 0 AND t.ended_at IS NOT NULL AND t.success IS NOT NULL AND t.counted
RETURN toInteger(floor(t.ended_at / 86400)) AS day, count(CASE WHEN t.success THEN 1 END) AS succeeded,
       count(CASE WHEN NOT t.success THEN 1 END) AS failed
ORDER BY day
