// On which transitions do more runs fail than the share of failed runs lets expect?
// Params:  $namespace string, $limit int = 25
// Returns: way path, failures int, failure_share float, excess float
// Picture: yes
MATCH (:Tool {namespace: $namespace, name: '<START>'})-[first:NEXT]->(:Tool)
WITH sum(first.failures) AS failed, sum(first.failures + first.support) AS labelled
MATCH p = (a:Tool {namespace: $namespace})-[r:NEXT]->(b:Tool)
WHERE r.failures > 0
RETURN p AS way, r.failures AS failures, r.failure_share AS failure_share,
       r.failures - 1.0 * failed / labelled * (r.failures + r.support) AS excess
ORDER BY excess DESC, a.name, b.name
LIMIT $limit
