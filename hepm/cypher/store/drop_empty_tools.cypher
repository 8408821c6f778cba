// Delete tools that are neither called nor described.
// Params:  $space string
// Index:   tool_space
MATCH (t:Tool {space: $space})
WHERE t.calls = 0 AND t.description = '' AND t.parameters = '{}' AND NOT EXISTS { (t)-[:NEXT]-() }
DETACH DELETE t
