// Note which runs took which edges, and count them there; and with one edge of each run to a tool, whether its calls to
// the tool failed. Tells which edges need their summaries read again: new ones, and those whose support has doubled since.
// Params:  $rows list of maps {run, source, target, after, edge, seq, called, ended, failed}
// Returns: source string, target string
// Index:   trajectory_uid, tool_uid
UNWIND $rows AS row
MATCH (t:Trajectory {uid: row.run})
MATCH (b:Tool {uid: row.target})
CREATE (t)-[:TOOK {after: row.after, edge: row.edge, seq: row.seq, called: row.called, ended: row.ended,
                   failed: row.failed}]->(b)
WITH row.source AS source, row.target AS target, b,
     count(CASE WHEN t.success THEN 1 END) AS support,
     sum(CASE WHEN t.success AND t.steps > 0 THEN toInteger(round(4294967296.0 / t.steps)) ELSE 0 END) AS inverse_steps,
     count(CASE WHEN NOT t.success THEN 1 END) AS failures,
     count(CASE WHEN t.success IS NULL THEN 1 END) AS unlabelled
MATCH (a:Tool {uid: source})
MERGE (a)-[r:NEXT]->(b)
ON CREATE SET r.support = 0, r.inverse_steps = 0, r.failures = 0, r.unlabelled = 0, r.weight = 0.0,
              r.failure_share = 0.0, r.states = 0, r.summaries = [], r.told_at = 0
SET r.support = r.support + support,
    r.inverse_steps = r.inverse_steps + inverse_steps,
    r.failures = r.failures + failures,
    r.unlabelled = r.unlabelled + unlabelled
WITH source, target, r, support WHERE r.support >= 2 * r.told_at AND support <> 0
RETURN source, target
