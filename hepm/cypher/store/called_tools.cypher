// Tools that a run called.
// Params:  $space string
// Returns: name string
// Index:   tool_space
MATCH (t:Tool {space: $space}) WHERE t.calls > 0
RETURN t.name AS name
