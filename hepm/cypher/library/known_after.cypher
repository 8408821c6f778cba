// What did agents know after a tool, and what did they call then?
// Params:  $namespace string, $tool string, $limit int = 10
// Returns: way path, seen int
// Note:    The most frequent situations come first.
// Picture: yes
MATCH p = (:Tool {namespace: $namespace, name: $tool})<-[:AFTER]-(s:State)-[:BEFORE]->(next:Tool)
RETURN p AS way, s.count AS seen
ORDER BY seen DESC, s.id, next.name
LIMIT $limit
