// Normalise the weights of some tools' outgoing edges, with c = 1 (H-EPM, 4.2).
// Params:  $rows list of maps {tool_uid}
// Index:   tool_uid
UNWIND $rows AS row
MATCH (a:Tool {uid: row.tool_uid})-[r:NEXT]->()
WITH a, collect(r) AS edges, sum(r.support + r.inverse_steps / 4294967296.0) AS total
UNWIND edges AS r
SET r.weight = CASE WHEN total > 0 THEN (r.support + r.inverse_steps / 4294967296.0) / total ELSE 0.0 END,
    r.failure_share = CASE WHEN r.support + r.failures > 0
                           THEN toFloat(r.failures) / (r.support + r.failures) ELSE 0.0 END
