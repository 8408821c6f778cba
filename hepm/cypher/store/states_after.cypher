// States of successful runs after a tool, with their vectors.
// Params:  $tool_uid string
// Returns: id int, sources list, targets list, success boolean, key int, count int, seen float, trajectory string, step int, summary string, vector bytes
// Index:   tool_uid
MATCH (:Tool {uid: $tool_uid})<-[:AFTER]-(s:State) WHERE s.success AND s.vector IS NOT NULL
RETURN s.id AS id, s.sources AS sources, s.targets AS targets, s.success AS success, s.key AS key, s.count AS count,
       s.seen AS seen, s.trajectory AS trajectory, s.step AS step, s.summary AS summary, s.vector AS vector ORDER BY id
