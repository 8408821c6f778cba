// Delete those of some tools that are neither called, described, retired nor known by another name.
// Params:  $rows list of maps {tool_uid}
// Index:   tool_uid
UNWIND $rows AS row
MATCH (t:Tool {uid: row.tool_uid})
WHERE t.calls = 0 AND t.retired IS NULL AND t.aliases IS NULL AND t.description = '' AND t.parameters = '{}' AND NOT EXISTS { (t)-[:NEXT]-() }
DETACH DELETE t
