// Tie experiences to those they evolved from.
// Params:  $rows list of maps {lesson_uid, parents: maps {parent_uid, operator}}
// Index:   lesson_uid
UNWIND $rows AS row
MATCH (l:Lesson {uid: row.lesson_uid})
UNWIND row.parents AS parent
MATCH (p:Lesson {uid: parent.parent_uid})
MERGE (l)-[e:EVOLVED_FROM]->(p)
SET e.operator = parent.operator
