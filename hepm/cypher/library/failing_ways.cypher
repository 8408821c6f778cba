// Which transitions do most failed runs take?
// Params:  $namespace string, $limit int = 25
// Returns: way path, failures int, failure_share float
// Picture: yes
MATCH p = (a:Tool {namespace: $namespace})-[r:NEXT]->(b:Tool)
WHERE r.failures > 0
RETURN p AS way, r.failures AS failures, r.failure_share AS failure_share
ORDER BY failures DESC, a.name, b.name
LIMIT $limit
