// Ids of successful runs that took an edge, the latest stored first.
// Params:  $edge string, $limit int
// Returns: id string
// Index:   took_edge
MATCH (t:Trajectory)-[p:TOOK]->()
WHERE p.edge = $edge AND p.seq > 0 AND t.success
RETURN t.id AS id ORDER BY p.seq DESC LIMIT $limit
