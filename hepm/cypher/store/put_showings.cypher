// Write down what was shown in runs, and how these ended; the uses of the lessons follow. Score is EvolveR's, equation 2.
// Params:  $space string, $namespace string, $changed int, $rows list of maps {showing_uid, run, lesson_uid, success}
// Index:   lesson_uid, showing_uid
UNWIND $rows AS row
MATCH (l:Lesson {uid: row.lesson_uid})
MERGE (s:Showing {uid: row.showing_uid})
ON CREATE SET s.space = $space, s.namespace = $namespace, s.run = row.run
WITH row, l, s
OPTIONAL MATCH (s)-[former:SHOWED]->(l)
WITH row, l, s, former IS NULL AS fresh, former.success AS before
MERGE (s)-[r:SHOWED]->(l)
SET r.success = row.success
WITH row, l, fresh, before
SET l.shown = l.shown + CASE WHEN fresh THEN 1 ELSE 0 END,
    l.uses = l.uses + CASE WHEN row.success IS NULL THEN 0 ELSE 1 END - CASE WHEN before IS NULL THEN 0 ELSE 1 END,
    l.successes = l.successes + CASE WHEN row.success THEN 1 ELSE 0 END - CASE WHEN before THEN 1 ELSE 0 END,
    l.changed = $changed
SET l.score = (l.successes + 1.0) / (l.uses + 2.0)
