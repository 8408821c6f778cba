// Delete outgoing edges that no run takes any more.
// Params:  $sources list of strings
// Index:   tool_uid
UNWIND $sources AS source
MATCH (:Tool {uid: source})-[r:NEXT]->()
WHERE r.support = 0 AND r.failures = 0 AND r.unlabelled = 0
DELETE r
