// Note which runs took which edges; and with one edge of each run to a tool, whether its calls to the tool failed.
// Params:  $rows list of maps {run, target, after, edge, seq, called, ended, failed}
// Index:   trajectory_uid, tool_uid
UNWIND $rows AS row
MATCH (t:Trajectory {uid: row.run})
MATCH (b:Tool {uid: row.target})
CREATE (t)-[:TOOK {after: row.after, edge: row.edge, seq: row.seq, called: row.called, ended: row.ended,
                   failed: row.failed}]->(b)
