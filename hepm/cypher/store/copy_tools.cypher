// Set descriptions and parameters, the former ones too.
// Params:  $namespace string, $space string, $rows list of maps {tool_uid, tool, description, parameters, described_at, changed_at, former_description, former_parameters}
// Index:   tool_uid
UNWIND $rows AS row
MERGE (t:Tool {uid: row.tool_uid})
ON CREATE SET t.namespace = $namespace, t.space = $space, t.name = row.tool, t.calls = 0, t.errors = 0
SET t.description = row.description, t.parameters = row.parameters, t.described_at = row.described_at,
    t.changed_at = CASE WHEN row.changed_at > 0 THEN row.changed_at END,
    t.former_description = row.former_description, t.former_parameters = row.former_parameters
