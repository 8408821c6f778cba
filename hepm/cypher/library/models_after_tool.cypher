// What do two models do differently after a tool?
// Params:  $namespace string, $tool string, $one string, $other string, $limit int = 20
// Returns: next string, runs_of_one int, runs_of_other int
MATCH (t:Trajectory {namespace: $namespace})-[took:TOOK]->(b:Tool)
WHERE took.after = $tool AND t.model IN [$one, $other]
WITH b.name AS next, sum(CASE WHEN t.model = $one THEN 1 ELSE 0 END) AS runs_of_one,
     sum(CASE WHEN t.model = $other THEN 1 ELSE 0 END) AS runs_of_other
RETURN next, runs_of_one, runs_of_other
ORDER BY abs(runs_of_one - runs_of_other) DESC, next
LIMIT $limit
