// The states after some tools that kept their text.
// Params:  $uids list of strings
// Returns: id int, sources list, targets list, success boolean, key int, count int, seen float, trajectory string, step int, summary string
// Index:   tool_uid
UNWIND $uids AS uid
MATCH (:Tool {uid: uid})<-[:AFTER]-(s:State)
WITH DISTINCT s
RETURN s.id AS id, s.sources AS sources, s.targets AS targets, s.success AS success, s.key AS key, s.count AS count,
       s.seen AS seen, s.trajectory AS trajectory, s.step AS step, s.summary AS summary
