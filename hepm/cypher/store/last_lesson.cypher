// The number of the lesson that came last.
// Params:  $space string
// Returns: seq int
// Index:   namespace_space
OPTIONAL MATCH (n:Namespace {space: $space})
RETURN coalesce(n.last_lesson, 0) AS seq
