// Passages whose edge is gone.
// Params:  $space string
// Returns: found int
// Index:   trajectory_arrival
MATCH (t:Trajectory)-[p:TOOK]->(b:Tool) WHERE t.space = $space AND t.seq > 0
  AND NOT EXISTS { MATCH (a:Tool)-[:NEXT]->(b) WHERE a.name = p.after AND a.space = $space }
RETURN count(p) AS found
