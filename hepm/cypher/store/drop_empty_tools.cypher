// Delete tools that are neither called, described, retired nor known by another name.
// Params:  $space string
// Index:   tool_space
MATCH (t:Tool {space: $space})
WHERE t.calls = 0 AND t.retired IS NULL AND t.aliases IS NULL AND t.description = '' AND t.parameters = '{}' AND NOT EXISTS { (t)-[:NEXT]-() }
DETACH DELETE t
