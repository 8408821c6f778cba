// Passages whose edge is gone, or that are not in the order of their runs.
// Params:  $space string
// Returns: found int
// Index:   trajectory_arrival, tool_space
MATCH (t:Trajectory)-[p:TOOK]->(b:Tool) WHERE t.space = $space AND t.seq > 0
  AND (p.seq <> t.seq OR NOT EXISTS { MATCH (a:Tool)-[:NEXT]->(b) WHERE a.name = p.after AND a.space = $space })
RETURN count(p) AS found
