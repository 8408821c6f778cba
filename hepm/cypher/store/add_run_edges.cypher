// Note which runs took which edges, and count them there; and with one edge of each run to a tool, whether its calls to
// the tool failed. The node before the first call is made here, with a label for Browser's styles.
// Params:  $namespace string, $space string, $rows list of maps {run_uid, after, after_uid, tool_uid, edge, ended, failed}
// Index:   trajectory_uid, tool_uid
UNWIND $rows AS row
MATCH (t:Trajectory {uid: row.run_uid})
MATCH (b:Tool {uid: row.tool_uid})
CREATE (t)-[:TOOK {after: row.after, edge: row.edge, seq: t.seq, ended: row.ended, failed: row.failed,
                   called: CASE WHEN row.failed IS NOT NULL THEN row.tool_uid END}]->(b)
WITH row.after AS after, row.after_uid AS after_uid, b,
     count(CASE WHEN t.success THEN 1 END) AS support,
     sum(CASE WHEN t.success AND t.steps > 0 THEN toInteger(round(4294967296.0 / t.steps)) ELSE 0 END) AS inverse_steps,
     count(CASE WHEN NOT t.success THEN 1 END) AS failures,
     count(CASE WHEN t.success IS NULL THEN 1 END) AS unlabelled
MERGE (a:Tool {uid: after_uid})
ON CREATE SET a:Start, a.namespace = $namespace, a.space = $space, a.name = after, a.calls = 0, a.errors = 0,
              a.description = '', a.parameters = '{}'
MERGE (a)-[r:NEXT]->(b)
ON CREATE SET r.support = 0, r.inverse_steps = 0, r.failures = 0, r.unlabelled = 0, r.weight = 0.0,
              r.failure_share = 0.0, r.states = 0, r.summaries = [], r.told_at = 0
SET r.support = r.support + support,
    r.inverse_steps = r.inverse_steps + inverse_steps,
    r.failures = r.failures + failures,
    r.unlabelled = r.unlabelled + unlabelled
