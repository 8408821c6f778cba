// Runs stored before a row, the latest first. A part that is null matches everything.
// Params:  $space string, $before int, $words string, $outcome string, $user string, $model string, $since float, $until float, $tool string, $limit int
// Returns: seq int, id string, environment string, task string, model string, user string, success boolean, steps int, ended_at float, said string
// Index:   trajectory_arrival
MATCH (t:Trajectory)
WHERE t.space = $space AND t.seq > 0 AND t.seq < $before
  AND ($words IS NULL OR toLower(left(t.said, 600)) CONTAINS $words OR toLower(t.id) CONTAINS $words
       OR toLower(t.task) = $words OR toLower(t.environment) CONTAINS $words)
  AND ($outcome IS NULL OR ($outcome = 'succeeded' AND t.success) OR ($outcome = 'failed' AND NOT t.success)
       OR ($outcome = 'unknown' AND t.success IS NULL))
  AND ($user IS NULL OR t.user = $user)
  AND ($model IS NULL OR t.model = $model)
  AND ($since IS NULL OR t.ended_at >= $since) AND ($until IS NULL OR t.ended_at < $until)
  AND ($tool IS NULL OR $tool IN t.tools)
RETURN t.seq AS seq, t.id AS id, t.environment AS environment, t.task AS task, t.model AS model, t.user AS user,
       t.success AS success, t.steps AS steps, t.ended_at AS ended_at, left(t.said, 600) AS said
ORDER BY seq DESC LIMIT $limit
