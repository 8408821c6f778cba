// Delete those of some tools that are neither called, described, retired nor known by another name.
// Params:  $uids list of strings
// Index:   tool_uid
UNWIND $uids AS uid
MATCH (t:Tool {uid: uid})
WHERE t.calls = 0 AND t.retired IS NULL AND t.aliases IS NULL AND t.description = '' AND t.parameters = '{}' AND NOT EXISTS { (t)-[:NEXT]-() }
DETACH DELETE t
