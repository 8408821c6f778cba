// Tie lessons to the tools they are about, as far as these are known.
// Params:  $rows list of maps {lesson_uid, tools: maps {tool_uid}}
// Index:   lesson_uid, tool_uid
UNWIND $rows AS row
MATCH (l:Lesson {uid: row.lesson_uid})
UNWIND row.tools AS tool
MATCH (t:Tool {uid: tool.tool_uid})
MERGE (l)-[:ABOUT]->(t)
