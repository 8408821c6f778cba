// Tie lessons to the tools they are about, as far as these are known.
// Params:  $rows list of maps {lesson_uid, tool_uid}
// Index:   lesson_uid, tool_uid
UNWIND $rows AS row
MATCH (l:Lesson {uid: row.lesson_uid})
MATCH (t:Tool {uid: row.tool_uid})
MERGE (l)-[:ABOUT]->(t)
