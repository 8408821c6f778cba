// Which tools are called again right away, and does that help?
// Params:  $namespace string, $limit int = 20
// Returns: tool string, runs int, failure_share float, calls int, errors int
MATCH (t:Tool {namespace: $namespace})-[r:NEXT]->(again:Tool)
WHERE again.name = t.name
RETURN t.name AS tool, r.support + r.failures + r.unlabelled AS runs, r.failure_share AS failure_share,
       t.calls AS calls, t.errors AS errors
ORDER BY runs DESC, tool
LIMIT $limit
