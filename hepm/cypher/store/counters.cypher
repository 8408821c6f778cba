// The last row numbers given out in a namespace; asked for after `lock`.
// Params:  $space string
// Returns: last_run int, last_state int
// Index:   namespace_space
OPTIONAL MATCH (n:Namespace {space: $space})
RETURN coalesce(n.last_run, 0) AS last_run, coalesce(n.last_state, 0) AS last_state
