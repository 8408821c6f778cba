// Note which runs took which edges.
// Params:  $rows list of maps {run, target, after, edge, seq}
// Index:   trajectory_uid, tool_uid
UNWIND $rows AS row
MATCH (t:Trajectory {uid: row.run})
MATCH (b:Tool {uid: row.target})
CREATE (t)-[:TOOK {after: row.after, edge: row.edge, seq: row.seq}]->(b)
