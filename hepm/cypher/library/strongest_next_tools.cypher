// Which tools worked best after this one?
// Params:  $namespace string, $tool string, $limit int = 10
// Returns: tool string, weight float, support int, failures int, failure_share float
MATCH (:Tool {namespace: $namespace, name: $tool})-[r:NEXT]->(next:Tool)
WHERE r.support > 0
RETURN next.name AS tool, r.weight AS weight, r.support AS support, r.failures AS failures,
       r.failure_share AS failure_share
ORDER BY weight DESC, tool
LIMIT $limit
