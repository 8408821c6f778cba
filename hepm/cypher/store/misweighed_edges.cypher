// Edges whose weight or share of failures is not that of their counts, with c = 1 (H-EPM, 4.2).
// Params:  $space string
// Returns: found int
// Index:   tool_space
MATCH (a:Tool {space: $space})-[r:NEXT]->()
WITH a, collect(r) AS edges, sum(r.support + r.inverse_steps / 4294967296.0) AS total
UNWIND edges AS r
WITH r, CASE WHEN total > 0 THEN (r.support + r.inverse_steps / 4294967296.0) / total ELSE 0.0 END AS weight,
     CASE WHEN r.support + r.failures > 0 THEN toFloat(r.failures) / (r.support + r.failures) ELSE 0.0 END AS share
WHERE coalesce(abs(r.weight - weight) + abs(r.failure_share - share), 1.0) > 1e-9
RETURN count(r) AS found
