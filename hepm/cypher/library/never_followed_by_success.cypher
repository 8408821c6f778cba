// Which tools were called, and never in a run that succeeded?
// Params:  $namespace string, $runs int = 1, $limit int = 50
// Returns: tool string, calls int, errors int, failures int, unlabelled int
// Note:    A run counts once for each tool that it came from.
MATCH (:Tool {namespace: $namespace})-[r:NEXT]->(t:Tool)
WITH t, sum(r.support) AS successes, sum(r.failures) AS failures, sum(r.unlabelled) AS unlabelled
WHERE successes = 0 AND failures >= $runs
RETURN t.name AS tool, t.calls AS calls, t.errors AS errors, failures, unlabelled
ORDER BY failures DESC, tool
LIMIT $limit
