// Which situations do agents meet most often?
// Params:  $namespace string, $limit int = 20
// Returns: summary string, after list of strings, next list of strings, success boolean, seen int
MATCH (s:State {namespace: $namespace})
WHERE s.summary IS NOT NULL
RETURN s.summary AS summary, s.sources AS after, s.targets AS next, s.success AS success, s.count AS seen
ORDER BY seen DESC, summary, success, s.id
LIMIT $limit
