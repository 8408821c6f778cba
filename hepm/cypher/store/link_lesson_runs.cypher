// Tie lessons to the runs behind them, as far as these are stored.
// Params:  $rows list of maps {lesson_uid, run_uid, reward, words}
// Index:   lesson_uid, trajectory_uid
UNWIND $rows AS row
MATCH (l:Lesson {uid: row.lesson_uid})
MATCH (t:Trajectory {uid: row.run_uid})
MERGE (l)-[f:FROM]->(t)
SET f.reward = row.reward, f.words = row.words
