// What did agents do differently after a tool in two months?
// Params:  $namespace string, $tool string, $one string, $other string, $limit int = 20
// Returns: next string, runs_in_one int, runs_in_other int
// Note:    Months are written like "2026-11".
MATCH (t:Trajectory {namespace: $namespace})-[took:TOOK]->(b:Tool)
WHERE took.after = $tool AND left(t.day, 7) IN [$one, $other]
WITH b.name AS next, sum(CASE WHEN left(t.day, 7) = $one THEN 1 ELSE 0 END) AS runs_in_one,
     sum(CASE WHEN left(t.day, 7) = $other THEN 1 ELSE 0 END) AS runs_in_other
RETURN next, runs_in_one, runs_in_other
ORDER BY abs(runs_in_one - runs_in_other) DESC, next
LIMIT $limit
