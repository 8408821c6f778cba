// On which tasks do successful runs differ most in length?
// Params:  $namespace string, $limit int = 20
// Returns: environment string, task string, successes int, shortest int, longest int, detour int
MATCH (t:Trajectory {namespace: $namespace})
WHERE t.success AND t.task <> ''
WITH t.environment AS environment, t.task AS task, count(*) AS successes, min(t.steps) AS `shortest`,
     max(t.steps) AS longest
WHERE successes > 1
RETURN environment, task, successes, `shortest`, longest, longest - `shortest` AS detour
ORDER BY detour DESC, environment, task
LIMIT $limit
