// Which tools come two steps after this one, over whichever tool between?
// Params:  $namespace string, $tool string, $limit int = 10
// Returns: tool string, share float, ways int
// Note:    The share is that of a random walk by weights, without memory. No edge is used twice.
MATCH (:Tool {namespace: $namespace, name: $tool})-[one:NEXT]->(between:Tool)-[two:NEXT]->(following:Tool)
WHERE one.support > 0 AND two.support > 0 AND NOT (between.name = $tool AND following.name = $tool)
RETURN following.name AS tool, sum(one.weight * two.weight) AS share, count(DISTINCT between) AS ways
ORDER BY share DESC, tool
LIMIT $limit
