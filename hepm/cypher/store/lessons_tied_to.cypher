// Which lessons are tied to runs.
// Params:  $uids list of strings
// Returns: lesson string, run string, reward float, words boolean
// Index:   trajectory_uid
UNWIND $uids AS uid
MATCH (l:Lesson)-[f:FROM]->(t:Trajectory {uid: uid})
RETURN l.uid AS lesson, uid AS run, f.reward AS reward, f.words AS words
