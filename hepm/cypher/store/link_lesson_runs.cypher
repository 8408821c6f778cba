// Tie lessons to the runs behind them, as far as these are stored.
// Params:  $rows list of maps {lesson_uid, links: maps {run_uid, reward, words}}
// Index:   lesson_uid, trajectory_uid
UNWIND $rows AS row
MATCH (l:Lesson {uid: row.lesson_uid})
UNWIND row.links AS source
MATCH (t:Trajectory {uid: source.run_uid})
MERGE (l)-[f:FROM]->(t)
SET f.reward = source.reward, f.words = source.words
