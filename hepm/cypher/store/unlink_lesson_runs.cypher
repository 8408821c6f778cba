// Untie lessons from the runs behind them.
// Params:  $uids list of strings
// Index:   lesson_uid
UNWIND $uids AS uid
MATCH (:Lesson {uid: uid})-[f:FROM]->()
DELETE f
