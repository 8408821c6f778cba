// Which tools do most runs pass through, from and to how many tools, and how many of those runs fail?
// Params:  $namespace string, $limit int = 20
// Returns: tool string, runs int, failures int, failure_share float, tools_before int, tools_after int
MATCH (t:Trajectory {namespace: $namespace})-[:TOOK]->(b:Tool)
WITH DISTINCT t, b
WITH b, count(*) AS runs, sum(CASE WHEN t.success THEN 1 ELSE 0 END) AS successes,
     sum(CASE WHEN NOT t.success THEN 1 ELSE 0 END) AS failures
RETURN b.name AS tool, runs, failures,
       CASE WHEN successes + failures > 0 THEN 1.0 * failures / (successes + failures) END AS failure_share,
       COUNT { MATCH (:Tool)-[:NEXT]->(b) } AS tools_before, COUNT { MATCH (b)-[:NEXT]->(:Tool) } AS tools_after
ORDER BY runs DESC, tool
LIMIT $limit
