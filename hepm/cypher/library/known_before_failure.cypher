// What did agents know when they went from one tool to another and failed in the end?
// Params:  $namespace string, $after string, $tool string, $limit int = 10
// Returns: summary string, seen int, trajectory string, step int
MATCH (:Tool {namespace: $namespace, name: $after})<-[:AFTER]-(s:State)-[:BEFORE]->(:Tool {namespace: $namespace, name: $tool})
WHERE NOT s.success
RETURN s.summary AS summary, s.count AS seen, s.trajectory AS trajectory, s.step AS step
ORDER BY seen DESC, s.seen DESC, summary, s.id
LIMIT $limit
