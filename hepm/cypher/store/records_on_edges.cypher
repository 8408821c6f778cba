// Records of the labelled runs that took one of some edges.
// Params:  $edges list of strings
// Returns: id string, record string
// Index:   took_edge
UNWIND $edges AS edge
MATCH (t:Trajectory)-[p:TOOK]->()
WHERE p.edge = edge AND p.seq > 0 AND t.success IS NOT NULL
RETURN DISTINCT t.id AS id, t.record AS record ORDER BY id
