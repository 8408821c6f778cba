// On which transitions do more runs fail than the share of failed runs lets expect?
// Params:  $namespace string, $limit int = 25
// Returns: way path, failures int, failure_share float, excess float
// Picture: yes
MATCH (t:Trajectory {namespace: $namespace})
WHERE t.counted AND t.steps > 0 AND t.success IS NOT NULL
WITH sum(CASE WHEN t.success THEN 0 ELSE 1 END) AS failed, count(*) AS labelled
MATCH p = (a:Tool {namespace: $namespace})-[r:NEXT]->(b:Tool)
WHERE r.failures > 0
RETURN p AS way, r.failures AS failures, r.failure_share AS failure_share,
       r.failures - 1.0 * failed / labelled * (r.failures + r.support) AS excess
ORDER BY excess DESC, a.name, b.name
LIMIT $limit
