// Which lessons are tied to runs.
// Params:  $uids list of strings
// Returns: lesson_uid string, run_uid string, reward float, words boolean
// Index:   trajectory_uid
UNWIND $uids AS uid
MATCH (l:Lesson)-[f:FROM]->(t:Trajectory {uid: uid})
RETURN l.uid AS lesson_uid, uid AS run_uid, f.reward AS reward, f.words AS words
