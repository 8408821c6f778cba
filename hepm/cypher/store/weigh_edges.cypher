// Normalise the weights of some tools' outgoing edges, with c = 1 (H-EPM, 4.2).
// Params:  $sources list of strings
// Index:   tool_uid
UNWIND $sources AS source
MATCH (a:Tool {uid: source})-[r:NEXT]->()
WITH a, collect(r) AS edges, sum(r.support + r.inverse_steps / 4294967296.0) AS total
UNWIND edges AS r
SET r.weight = CASE WHEN total > 0 THEN (r.support + r.inverse_steps / 4294967296.0) / total ELSE 0.0 END,
    r.failure_share = CASE WHEN r.support + r.failures > 0
                           THEN toFloat(r.failures) / (r.support + r.failures) ELSE 0.0 END
