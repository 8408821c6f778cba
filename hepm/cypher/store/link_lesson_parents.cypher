// Tie experiences to those they evolved from.
// Params:  $rows list of maps {lesson, parent, operator}
// Index:   lesson_uid
UNWIND $rows AS row
MATCH (l:Lesson {uid: row.lesson})
MATCH (p:Lesson {uid: row.parent})
MERGE (l)-[e:EVOLVED_FROM]->(p)
SET e.operator = row.operator
