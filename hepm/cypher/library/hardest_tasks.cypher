// Which tasks fail most often?
// Params:  $namespace string, $runs int = 2, $limit int = 20
// Returns: environment string, task string, runs int, successes int, success_share float
MATCH (t:Trajectory {namespace: $namespace})
WHERE t.success IS NOT NULL AND t.task <> ''
WITH t.environment AS environment, t.task AS task, count(*) AS runs,
     sum(CASE WHEN t.success THEN 1 ELSE 0 END) AS successes
WHERE runs >= $runs
RETURN environment, task, runs, successes, 1.0 * successes / runs AS success_share
ORDER BY success_share, runs DESC, environment, task
LIMIT $limit
