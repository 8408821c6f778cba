// What does the graph look like around one tool?
// Params:  $namespace string, $tool string, $limit int = 25
// Returns: way path, weight float
// Note:    The strongest transitions from it.
// Picture: yes
MATCH p = (:Tool {namespace: $namespace, name: $tool})-[r:NEXT]->(next:Tool)
RETURN p AS way, r.weight AS weight
ORDER BY weight DESC, next.name
LIMIT $limit
