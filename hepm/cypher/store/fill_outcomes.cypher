// Note for stored runs whether their calls to tools failed, each with one of the run's edges to the tool.
// Params:  $rows list of maps {run, called, ended, failed}
// Index:   trajectory_uid, tool_uid
UNWIND $rows AS row
MATCH (t:Trajectory {uid: row.run})-[p:TOOK]->(b:Tool) WHERE b.uid = row.called
WITH row, p ORDER BY p.after
WITH row, head(collect(p)) AS first
SET first.called = row.called, first.ended = row.ended, first.failed = row.failed
