// Which runs went from one tool to another?
// Params:  $namespace string, $after string, $tool string, $limit int = 20
// Returns: trajectory string, success boolean, steps int, environment string, task string, model string, day string
// Note:    The latest stored come first.
MATCH (t:Trajectory {namespace: $namespace})-[took:TOOK]->(:Tool {namespace: $namespace, name: $tool})
WHERE took.after = $after
RETURN t.id AS trajectory, t.success AS success, t.steps AS steps, t.environment AS environment, t.task AS task,
       t.model AS model, t.day AS day
ORDER BY t.seq DESC
LIMIT $limit
