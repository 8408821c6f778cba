// Which tools do runs begin with, and how do those runs end?
// Params:  $namespace string, $limit int = 10
// Returns: tool string, weight float, support int, failures int, failure_share float
MATCH (:Tool {namespace: $namespace, name: '<START>'})-[r:NEXT]->(first:Tool)
RETURN first.name AS tool, r.weight AS weight, r.support AS support, r.failures AS failures,
       r.failure_share AS failure_share
ORDER BY support + failures DESC, tool
LIMIT $limit
