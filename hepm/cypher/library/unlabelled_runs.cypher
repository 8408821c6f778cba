// Which runs have no outcome and are therefore not counted?
// Params:  $namespace string, $limit int = 50
// Returns: trajectory string, environment string, task string, model string, steps int, source string
MATCH (t:Trajectory {namespace: $namespace})
WHERE t.success IS NULL
RETURN t.id AS trajectory, t.environment AS environment, t.task AS task, t.model AS model, t.steps AS steps,
       t.source AS source
ORDER BY t.seq
LIMIT $limit
