// How did the runs of one task go?
// Params:  $namespace string, $task string, $limit int = 50
// Returns: trajectory string, environment string, model string, success boolean, reward float, steps int, tools list of strings
MATCH (t:Trajectory {namespace: $namespace, task: $task})
RETURN t.id AS trajectory, t.environment AS environment, t.model AS model, t.success AS success, t.reward AS reward,
       t.steps AS steps, t.tools AS tools
ORDER BY t.seq
LIMIT $limit
