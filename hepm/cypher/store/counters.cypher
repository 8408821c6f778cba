// The last row numbers given out in a namespace, and whether lessons were shown in it; asked for after `lock`.
// Params:  $space string
// Returns: last_run int, last_state int, shown boolean
// Index:   namespace_space, showing_space
OPTIONAL MATCH (n:Namespace {space: $space})
RETURN coalesce(n.last_run, 0) AS last_run, coalesce(n.last_state, 0) AS last_state,
       EXISTS { MATCH (:Showing {space: $space}) } AS shown
