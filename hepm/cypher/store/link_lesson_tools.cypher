// Tie lessons to the tools they are about, as far as these are known.
// Params:  $rows list of maps {lesson, tool}
// Index:   lesson_uid, tool_uid
UNWIND $rows AS row
MATCH (l:Lesson {uid: row.lesson})
MATCH (t:Tool {uid: row.tool})
MERGE (l)-[:ABOUT]->(t)
