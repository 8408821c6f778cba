// Which tool do runs call last, and how many of those runs succeeded?
// Params:  $namespace string, $limit int = 10
// Returns: tool string, runs int, successes int, failures int
MATCH (t:Trajectory {namespace: $namespace})
WHERE size(t.tools) > 0
WITH t.tools[-1] AS tool, t
RETURN tool, count(*) AS runs, sum(CASE WHEN t.success THEN 1 ELSE 0 END) AS successes,
       sum(CASE WHEN NOT t.success THEN 1 ELSE 0 END) AS failures
ORDER BY runs DESC, tool
LIMIT $limit
