// Which transitions mostly end in failure?
// Params:  $namespace string, $runs int = 5, $limit int = 20
// Returns: after string, tool string, support int, failures int, failure_share float
MATCH (a:Tool {namespace: $namespace})-[r:NEXT]->(b:Tool)
WHERE r.support + r.failures >= $runs AND r.failures > r.support
RETURN a.name AS after, b.name AS tool, r.support AS support, r.failures AS failures, r.failure_share AS failure_share
ORDER BY failure_share DESC, failures DESC, after, tool
LIMIT $limit
