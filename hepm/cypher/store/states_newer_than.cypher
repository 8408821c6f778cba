// States of all labelled runs above an id, with their vectors and without their summaries.
// Params:  $space string, $newer_than int
// Returns: id int, sources list, targets list, success boolean, key int, count int, seen float, trajectory string, step int, summary string, vector bytes
// Index:   state_arrival
MATCH (s:State) WHERE s.space = $space AND s.id > $newer_than AND s.vector IS NOT NULL
RETURN s.id AS id, s.sources AS sources, s.targets AS targets, s.success AS success, s.key AS key, s.count AS count,
       s.seen AS seen, s.trajectory AS trajectory, s.step AS step, '' AS summary, s.vector AS vector ORDER BY id
