// How many runs took each edge.
// Params:  $space string
// Returns: source string, target string, runs int
// Index:   trajectory_arrival
MATCH (t:Trajectory)-[p:TOOK]->(b:Tool) WHERE t.space = $space AND t.seq > 0
RETURN p.after AS source, b.name AS target, count(p) AS runs
