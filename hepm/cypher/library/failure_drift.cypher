// How does the share of failed runs among those that called a tool change from month to month?
// Params:  $namespace string, $tool string
// Returns: month string, runs int, failures int, failure_share float
MATCH (t:Trajectory {namespace: $namespace})-[:TOOK]->(:Tool {namespace: $namespace, name: $tool})
WHERE t.day IS NOT NULL AND t.success IS NOT NULL
WITH DISTINCT t
WITH left(t.day, 7) AS month, count(*) AS runs, sum(CASE WHEN NOT t.success THEN 1 ELSE 0 END) AS failures
RETURN month, runs, failures, 1.0 * failures / runs AS failure_share
ORDER BY month
