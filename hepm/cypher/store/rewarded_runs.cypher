// Stored runs that another threshold may label otherwise.
// Params:  $space string, $low float, $high float
// Returns: seq int, id string, environment string, task string, success boolean, steps int, counted boolean, record string
// Index:   trajectory_arrival
MATCH (t:Trajectory)
WHERE t.space = $space AND t.seq > 0
  AND t.reward IS NOT NULL AND (t.success IS NULL OR (t.reward >= $low AND t.reward < $high))
RETURN t.seq AS seq, t.id AS id, t.environment AS environment, t.task AS task, t.success AS success, t.steps AS steps,
       t.counted AS counted, t.record AS record
