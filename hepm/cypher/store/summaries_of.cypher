// What agents knew on an edge: most often seen first, then latest.
// Params:  $source string, $target string, $limit int
// Returns: summary string
// Index:   tool_uid
MATCH (:Tool {uid: $source})<-[:AFTER]-(s:State)-[:BEFORE]->(:Tool {uid: $target}) WHERE s.success
RETURN s.summary AS summary ORDER BY s.count DESC, s.seen DESC, s.summary LIMIT $limit
