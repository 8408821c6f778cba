// Labelled runs that count and took an edge from one of some tools, without their vectors.
// Params:  $edges list of strings
// Returns: seq int, id string, success boolean, sequence string, vector bytes
// Index:   took_edge
UNWIND $edges AS edge
MATCH (t:Trajectory)-[p:TOOK]->() WHERE p.edge = edge AND p.seq > 0 AND t.counted AND t.success IS NOT NULL
WITH DISTINCT t
RETURN t.seq AS seq, t.id AS id, t.success AS success, t.sequence AS sequence, NULL AS vector ORDER BY seq
