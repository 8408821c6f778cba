// Some runs of unknown outcome, the latest first. A part that is null matches everything.
// Params:  $space string, $before int, $environment string, $task string, $limit int
// Returns: seq int, id string, record string
// Index:   trajectory_arrival
MATCH (t:Trajectory)
WHERE t.space = $space AND t.seq > 0 AND t.seq < $before AND t.success IS NULL AND t.reward IS NULL
  AND ($environment IS NULL OR t.environment = $environment)
  AND ($task IS NULL OR t.task = $task)
RETURN t.seq AS seq, t.id AS id, t.record AS record ORDER BY seq DESC LIMIT $limit
