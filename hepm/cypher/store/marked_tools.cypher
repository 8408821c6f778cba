// Tools that are retired or have other names.
// Params:  $space string
// Returns: name string, retired boolean, aliases list
// Index:   tool_space
MATCH (t:Tool {space: $space}) WHERE t.retired OR t.aliases IS NOT NULL
RETURN t.name AS name, coalesce(t.retired, false) AS retired, coalesce(t.aliases, []) AS aliases
