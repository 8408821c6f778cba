// Labelled runs that count and took an edge from one of some tools, without their vectors.
// Params:  $edges list of strings
// Returns: seq int, id string, success boolean, sequence string, task string, user string, said string, vector bytes
// Index:   took_edge
UNWIND $edges AS edge
MATCH (t:Trajectory)-[p:TOOK]->() WHERE p.edge = edge AND p.seq > 0 AND t.counted AND t.success IS NOT NULL
WITH DISTINCT t
RETURN t.seq AS seq, t.id AS id, t.success AS success, t.sequence AS sequence, t.task AS task,
       t.user AS user, left(t.said, 600) AS said, NULL AS vector ORDER BY seq
