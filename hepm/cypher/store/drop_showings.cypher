// Delete what was shown in runs, and what was told of them; the uses of the lessons follow.
// Params:  $changed int, $rows list of maps {showing_uid}
// Index:   showing_uid
UNWIND $rows AS row
MATCH (s:Showing {uid: row.showing_uid})
CALL (s) {
    MATCH (s)-[r:SHOWED]->(l:Lesson)
    SET l.shown = l.shown - 1,
        l.uses = l.uses - CASE WHEN r.success IS NULL THEN 0 ELSE 1 END,
        l.successes = l.successes - CASE WHEN r.success THEN 1 ELSE 0 END,
        l.changed = $changed
    SET l.score = (l.successes + 1.0) / (l.uses + 2.0)
}
DETACH DELETE s
