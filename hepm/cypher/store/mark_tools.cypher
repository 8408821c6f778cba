// Say which tools are retired, and their other names; a tool without either has no such property.
// Params:  $rows list of maps {tool_uid, retired, aliases}
// Index:   tool_uid
UNWIND $rows AS row
MATCH (t:Tool {uid: row.tool_uid})
SET t.retired = CASE WHEN row.retired THEN 'by hand' END,
    t.aliases = CASE WHEN size(row.aliases) > 0 THEN row.aliases END
