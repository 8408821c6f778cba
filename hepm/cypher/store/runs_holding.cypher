// Labelled runs on an edge with one of the texts in their sequence, or all of them if no text is given.
// Params:  $edge string, $texts list of strings
// Returns: id string, ended_at float, success boolean, sequence string
// Index:   took_edge
MATCH (t:Trajectory)-[p:TOOK]->()
WHERE p.edge = $edge AND p.seq > 0 AND t.success IS NOT NULL
  AND (size($texts) = 0 OR any(text IN $texts WHERE t.sequence CONTAINS text))
RETURN t.id AS id, coalesce(t.ended_at, 0.0) AS ended_at, t.success AS success, t.sequence AS sequence
