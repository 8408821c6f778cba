// Forget which edges some runs took, and take back what was counted there; delete edges that no run takes any more.
// Params:  $rows list of maps {run_uid}
// Index:   trajectory_uid
UNWIND $rows AS row
MATCH (t:Trajectory {uid: row.run_uid})-[p:TOOK]->(b:Tool)
WITH p.after AS source, b, collect(p) AS took,
     count(CASE WHEN t.success THEN 1 END) AS support,
     sum(CASE WHEN t.success AND t.steps > 0 THEN toInteger(round(4294967296.0 / t.steps)) ELSE 0 END) AS inverse_steps,
     count(CASE WHEN NOT t.success THEN 1 END) AS failures,
     count(CASE WHEN t.success IS NULL THEN 1 END) AS unlabelled
FOREACH (p IN took | DELETE p)
WITH source, b, support, inverse_steps, failures, unlabelled
MATCH (a:Tool)-[r:NEXT]->(b) WHERE a.name = source
SET r.support = r.support - support,
    r.inverse_steps = r.inverse_steps - inverse_steps,
    r.failures = r.failures - failures,
    r.unlabelled = r.unlabelled - unlabelled
WITH r WHERE r.support = 0 AND r.failures = 0 AND r.unlabelled = 0
DELETE r
