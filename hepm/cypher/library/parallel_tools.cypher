// Which tools do agents issue together in one turn?
// Params:  $namespace string, $limit int = 20
// Returns: tool string, other string, states int, seen int, successes int
// Note:    Counts states of labelled runs.
MATCH (a:Tool {namespace: $namespace})<-[:BEFORE]-(s:State)-[:BEFORE]->(b:Tool)
WHERE a.name < b.name
RETURN a.name AS tool, b.name AS other, count(s) AS states, sum(s.count) AS seen,
       sum(CASE WHEN s.success THEN s.count ELSE 0 END) AS successes
ORDER BY seen DESC, tool, other
LIMIT $limit
