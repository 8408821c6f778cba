// All tools but the node before the first call.
// Params:  $space string, $start string
// Returns: name string, description string, parameters string, calls int, errors int
// Index:   tool_space
MATCH (t:Tool {space: $space}) WHERE t.name <> $start
RETURN t.name AS name, t.description AS description, t.parameters AS parameters, t.calls AS calls, t.errors AS errors
