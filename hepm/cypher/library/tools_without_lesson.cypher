// Which tools did failed runs call that no lesson is about?
// Params:  $namespace string, $runs int = 2, $limit int = 20
// Returns: tool string, failures int, successes int, calls int, errors int
// Note:    A run counts once for each tool that it came from. Retired lessons do not count as lessons.
MATCH (:Tool {namespace: $namespace})-[r:NEXT]->(t:Tool)
WITH t, sum(r.failures) AS failures, sum(r.support) AS successes
WHERE failures >= $runs AND NOT EXISTS { MATCH (l:Experience|Principle|Notes)-[:ABOUT]->(t) WHERE l.live }
RETURN t.name AS tool, failures, successes, t.calls AS calls, t.errors AS errors
ORDER BY failures DESC, tool
LIMIT $limit
