// Runs stored before a row, the latest first; maybe only those of unknown outcome.
// Params:  $space string, $before int, $unlabelled boolean, $limit int
// Returns: seq int, id string, record string
// Index:   trajectory_arrival
MATCH (t:Trajectory)
WHERE t.space = $space AND t.seq > 0 AND t.seq < $before
  AND (NOT $unlabelled OR t.success IS NULL AND t.reward IS NULL)
RETURN t.seq AS seq, t.id AS id, t.record AS record ORDER BY seq DESC LIMIT $limit
