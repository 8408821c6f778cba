// Tools that are retired or have other names.
// Params:  $space string
// Returns: name string, retired boolean, aliases list
// Index:   tool_retired, tool_aliases, tool_space
MATCH (t:Tool) WHERE (t.retired IS NOT NULL OR t.aliases IS NOT NULL) AND t.space = $space
RETURN t.name AS name, t.retired IS NOT NULL AS retired, coalesce(t.aliases, []) AS aliases
