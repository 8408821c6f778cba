// Whether the calls of each run to each tool failed.
// Params:  $space string
// Returns: tool string, run string, ended float, failed boolean
// Index:   trajectory_arrival
MATCH (t:Trajectory)-[p:TOOK]->(b:Tool) WHERE t.space = $space AND t.seq > 0 AND p.called IS NOT NULL
RETURN b.name AS tool, t.id AS run, p.ended AS ended, p.failed AS failed ORDER BY t.seq
