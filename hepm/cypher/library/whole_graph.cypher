// What does the graph look like?
// Params:  $namespace string, $support int = 2, $limit int = 300
// Returns: way path, support int
// Note:    The most frequent transitions come first.
// Picture: yes
MATCH p = (a:Tool {namespace: $namespace})-[r:NEXT]->(b:Tool)
WHERE r.support >= $support
RETURN p AS way, r.support AS support
ORDER BY support DESC, a.name, b.name
LIMIT $limit
