// Whether the calls of the latest runs to some tools failed, newest first, as one text of 1 (failed) and 0.
// Params:  $rows list of maps {tool, tool_uid}, $most int
// Returns: tool string, failed string
// Index:   took_outcome
UNWIND $rows AS row
CALL (row) {
    MATCH ()-[p:TOOK]->() WHERE p.called = row.tool_uid AND p.ended IS NOT NULL AND p.seq IS NOT NULL
    WITH p.failed AS failed, p.ended AS ended, p.seq AS seq ORDER BY ended DESC, seq DESC LIMIT $most
    RETURN collect(CASE WHEN failed THEN '1' ELSE '0' END) AS flags
}
RETURN row.tool AS tool, reduce(text = '', flag IN flags | text + flag) AS failed
