// Tie experiences to those they evolved from.
// Params:  $rows list of maps {lesson_uid, parent_uid, operator}
// Index:   lesson_uid
UNWIND $rows AS row
MATCH (l:Lesson {uid: row.lesson_uid})
MATCH (p:Lesson {uid: row.parent_uid})
MERGE (l)-[e:EVOLVED_FROM]->(p)
SET e.operator = row.operator
