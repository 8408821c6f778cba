// Set descriptions and parameters.
// Params:  $namespace string, $space string, $rows list of maps {tool_uid, tool, description, parameters}
// Index:   tool_uid
UNWIND $rows AS row
MERGE (t:Tool {uid: row.tool_uid})
ON CREATE SET t.namespace = $namespace, t.space = $space, t.name = row.tool, t.calls = 0, t.errors = 0
SET t.description = row.description, t.parameters = row.parameters
