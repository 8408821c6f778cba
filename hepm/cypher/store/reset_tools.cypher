// Set the counts of all tools to nothing.
// Params:  $space string
// Index:   tool_space
MATCH (t:Tool {space: $space}) SET t.calls = 0, t.errors = 0
