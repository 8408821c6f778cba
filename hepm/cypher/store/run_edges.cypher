// Which runs took each edge.
// Params:  $space string
// Returns: source string, target string, run string
// Index:   trajectory_arrival
MATCH (t:Trajectory)-[p:TOOK]->(b:Tool) WHERE t.space = $space AND t.seq > 0
RETURN p.after AS source, b.name AS target, t.id AS run ORDER BY t.seq
