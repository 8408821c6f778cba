// Whether the calls of the latest runs to a tool failed, newest first, and where each run is from.
// Params:  $tool_uid string, $most int
// Returns: failed boolean, labelled boolean, token string, model string, ended float
// Index:   took_outcome
MATCH (t:Trajectory)-[p:TOOK]->()
WHERE p.called = $tool_uid AND p.ended IS NOT NULL AND p.seq IS NOT NULL
WITH t, p ORDER BY p.ended DESC, p.seq DESC LIMIT $most
RETURN p.failed AS failed, t.success IS NOT NULL AS labelled, coalesce(t.token, '') AS token, t.model AS model,
       p.ended AS ended
