// Write down what was shown in runs, and how these ended.
// Params:  $space string, $namespace string, $rows list of maps {showing_uid, run, lesson_uid, success}
// Index:   showing_uid, lesson_uid
UNWIND $rows AS row
MATCH (l:Lesson {uid: row.lesson_uid})
MERGE (s:Showing {uid: row.showing_uid})
ON CREATE SET s.space = $space, s.namespace = $namespace, s.run = row.run
MERGE (s)-[r:SHOWED]->(l)
SET r.success = row.success
