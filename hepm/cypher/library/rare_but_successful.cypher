// Which transitions are rare but always succeeded?
// Params:  $namespace string, $least int = 2, $most int = 10, $limit int = 20
// Returns: after string, tool string, support int, weight float
MATCH (a:Tool {namespace: $namespace})-[r:NEXT]->(b:Tool)
WHERE r.failures = 0 AND r.support >= $least AND r.support <= $most
RETURN a.name AS after, b.name AS tool, r.support AS support, r.weight AS weight
ORDER BY support DESC, weight DESC, after, tool
LIMIT $limit
