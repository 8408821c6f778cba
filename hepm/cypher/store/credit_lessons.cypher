// Add to the uses of lessons; score is EvolveR's, equation 2.
// Params:  $changed int, $rows list of maps {lesson_uid, shown, uses, successes}
// Index:   lesson_uid
UNWIND $rows AS row
MATCH (l:Lesson {uid: row.lesson_uid})
SET l.shown = l.shown + row.shown,
    l.uses = l.uses + row.uses,
    l.successes = l.successes + row.successes,
    l.changed = $changed
SET l.score = (l.successes + 1.0) / (l.uses + 2.0)
