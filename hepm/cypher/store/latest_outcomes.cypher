// Whether the calls of the latest runs to some tools failed, newest first, as one text of 1 (failed) and 0.
// Params:  $tools list of strings, $uids list of strings, $most int
// Returns: tool string, failed string
// Index:   took_outcome
UNWIND range(0, size($uids) - 1) AS at
CALL (at) {
    MATCH ()-[p:TOOK]->() WHERE p.called = $uids[at] AND p.ended IS NOT NULL AND p.seq IS NOT NULL
    WITH p.failed AS failed, p.ended AS ended, p.seq AS seq ORDER BY ended DESC, seq DESC LIMIT $most
    RETURN collect(CASE WHEN failed THEN '1' ELSE '0' END) AS flags
}
RETURN $tools[at] AS tool, reduce(text = '', flag IN flags | text + flag) AS failed
