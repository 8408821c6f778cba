// All states that kept their text.
// Params:  $space string
// Returns: id int, sources list, targets list, success boolean, key int, count int, seen float, trajectory string, step int, summary string
// Index:   state_arrival
MATCH (s:State) WHERE s.space = $space AND s.id > 0 AND s.kept
RETURN s.id AS id, s.sources AS sources, s.targets AS targets, s.success AS success, s.key AS key, s.count AS count,
       s.seen AS seen, s.trajectory AS trajectory, s.step AS step, s.summary AS summary ORDER BY id
