// Set the uses of lessons: those that they brought along from another store, and those in the runs that they were shown
// in; score is EvolveR's, equation 2.
// Params:  $changed int, $rows list of maps {lesson_uid, shown, uses, successes}
// Index:   lesson_uid
UNWIND $rows AS row
MATCH (l:Lesson {uid: row.lesson_uid})
OPTIONAL MATCH (l)<-[r:SHOWED]-(:Showing)
WITH row, l, count(r) AS shown, count(r.success) AS uses, count(CASE WHEN r.success THEN 1 END) AS successes
SET l.shown = row.shown + shown, l.uses = row.uses + uses, l.successes = row.successes + successes, l.changed = $changed
SET l.score = (l.successes + 1.0) / (l.uses + 2.0)
