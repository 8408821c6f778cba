// Which lessons are tied to runs.
// Params:  $rows list of maps {run_uid}
// Returns: lesson_uid string, run_uid string, reward float, words boolean
// Index:   trajectory_uid
UNWIND $rows AS row
MATCH (l:Lesson)-[f:FROM]->(t:Trajectory {uid: row.run_uid})
RETURN l.uid AS lesson_uid, row.run_uid AS run_uid, f.reward AS reward, f.words AS words
