// Of each edge the latest successful runs that took it, and what agents knew then: most often seen first, then latest.
// Params:  $rows list of {at, edge, source_uid, target_uid}, $most_runs int, $most_summaries int
// Returns: at int, runs list, summaries list
// Index:   took_edge, tool_uid
UNWIND $rows AS row
CALL (row) {
    MATCH (t:Trajectory)-[p:TOOK]->()
    WHERE p.edge = row.edge AND p.seq > 0 AND t.success
    WITH t.id AS id, p.seq AS seq ORDER BY seq DESC LIMIT $most_runs
    RETURN collect(id) AS runs
}
CALL (row) {
    MATCH (:Tool {uid: row.source_uid})<-[:AFTER]-(s:State)-[:BEFORE]->(:Tool {uid: row.target_uid})
    WHERE s.success AND s.summary IS NOT NULL
    WITH s.summary AS summary, sum(s.count) AS count, max(s.seen) AS seen
    ORDER BY count DESC, seen DESC, summary LIMIT $most_summaries
    RETURN collect(summary) AS summaries
}
RETURN row.at AS at, runs, summaries ORDER BY at
