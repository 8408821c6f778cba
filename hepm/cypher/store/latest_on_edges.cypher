// Of each edge the row numbers of the latest runs that took it.
// Params:  $rows list of maps {edge, source, target}, $most int
// Returns: source string, target string, seqs list
// Index:   took_edge
UNWIND $rows AS row
CALL (row) {
    MATCH ()-[p:TOOK]->() WHERE p.edge = row.edge AND p.seq > 0
    WITH p.seq AS seq ORDER BY seq DESC LIMIT $most
    RETURN collect(seq) AS seqs
}
RETURN row.source AS source, row.target AS target, seqs
