// The last row numbers given out in a namespace, whether lessons were shown in it, and its marked tools (see
// `marked_tools`); asked for after `lock`.
// Params:  $space string
// Returns: last_run int, last_state int, last_lesson int, shown boolean, marked list
// Index:   namespace_space, showing_space, tool_retired, tool_aliases, tool_space
OPTIONAL MATCH (n:Namespace {space: $space})
RETURN coalesce(n.last_run, 0) AS last_run, coalesce(n.last_state, 0) AS last_state,
       coalesce(n.last_lesson, 0) AS last_lesson,
       EXISTS { MATCH (:Showing {space: $space}) } AS shown,
       COLLECT {
           MATCH (t:Tool) WHERE (t.retired IS NOT NULL OR t.aliases IS NOT NULL) AND t.space = $space
           RETURN [t.name, t.retired IS NOT NULL, coalesce(t.aliases, [])]
       } AS marked
