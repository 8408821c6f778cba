// By tool: how many successful runs took its incoming edges but the one from the start, and the most that took one.
// Params:  $space string, $start string
// Returns: target string, later int, support int, failures int
// Index:   tool_space
MATCH (a:Tool {space: $space})-[r:NEXT]->(b:Tool)
RETURN b.name AS target, sum(CASE WHEN a.name <> $start THEN r.support ELSE 0 END) AS later,
       max(r.support) AS support, max(r.failures) AS failures
