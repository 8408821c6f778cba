// Tie notes to their user and to the version they revise; the user prefers the newest.
// Params:  $space string, $namespace string, $rows list of maps {lesson, parent, user, id}
// Index:   lesson_uid, user_uid
UNWIND $rows AS row
MERGE (u:User {uid: row.user})
ON CREATE SET u.space = $space, u.namespace = $namespace, u.id = row.id
WITH u, row
MATCH (l:Lesson {uid: row.lesson})
OPTIONAL MATCH (p:Lesson {uid: row.parent})
OPTIONAL MATCH (u)-[former:PREFERS]->(p)
DELETE former
FOREACH (_ IN CASE WHEN EXISTS { (:Lesson)-[:REVISES]->(l) } THEN [] ELSE [1] END | MERGE (u)-[:PREFERS]->(l))
FOREACH (_ IN CASE WHEN p IS NULL THEN [] ELSE [1] END | MERGE (l)-[:REVISES]->(p))
