// Delete tools that no run calls.
// Params:  $rows list of maps {tool_uid}
// Index:   tool_uid
UNWIND $rows AS row
MATCH (t:Tool {uid: row.tool_uid})
WHERE t.calls = 0 AND NOT EXISTS { (t)-[:NEXT]-() }
DETACH DELETE t
