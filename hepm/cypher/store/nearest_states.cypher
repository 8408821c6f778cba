// The states most similar to a vector, over all namespaces: the index knows none.
// Params:  $vector list of floats, $candidates int, $space string
// Returns: id int, sources list, targets list, success boolean, key int, count int, seen float, trajectory string, step int, summary string, vector bytes
// Index:   state_embedding
CALL db.index.vector.queryNodes('state_embedding', $candidates, $vector) YIELD node AS s
WITH s WHERE s.space = $space AND s.success
RETURN s.id AS id, s.sources AS sources, s.targets AS targets, s.success AS success, s.key AS key, s.count AS count,
       s.seen AS seen, s.trajectory AS trajectory, s.step AS step, s.summary AS summary,
       s.vector AS vector ORDER BY id
