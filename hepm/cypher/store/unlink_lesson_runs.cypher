// Untie lessons from the runs behind them.
// Params:  $rows list of maps {lesson_uid}
// Index:   lesson_uid
UNWIND $rows AS row
MATCH (:Lesson {uid: row.lesson_uid})-[f:FROM]->()
DELETE f
