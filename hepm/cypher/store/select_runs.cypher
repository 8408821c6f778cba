// Stored runs by where they come from; a part that is null matches everything.
// Params:  $space string, $trajectory string, $environment string, $task string, $user string, $token string
// Returns: seq int, id string, environment string, task string, success boolean, steps int, counted boolean, record string
// Index:   trajectory_arrival
MATCH (t:Trajectory)
WHERE t.space = $space AND t.seq > 0
  AND ($trajectory IS NULL OR t.id = $trajectory)
  AND ($environment IS NULL OR t.environment = $environment)
  AND ($task IS NULL OR t.task = $task)
  AND ($user IS NULL OR t.user = $user)
  AND ($token IS NULL OR t.token = $token)
RETURN t.seq AS seq, t.id AS id, t.environment AS environment, t.task AS task, t.success AS success, t.steps AS steps,
       t.counted AS counted, t.record AS record
