// Which tools do agents have and never call?
// Params:  $namespace string
// Returns: tool string, description string
MATCH (t:Tool {namespace: $namespace})
WHERE t.calls = 0 AND t.name <> '<START>'
RETURN t.name AS tool, t.description AS description
ORDER BY tool
