// Tie notes to their user and to the versions beside them; the user prefers those that no others revise.
// Params:  $space string, $namespace string, $rows list of maps {lesson_uid, parent_uid, user, user_uid}
// Index:   lesson_uid, user_uid
UNWIND $rows AS row
MERGE (u:User {uid: row.user_uid})
ON CREATE SET u.space = $space, u.namespace = $namespace, u.id = row.user
WITH u, row
MATCH (l:Lesson {uid: row.lesson_uid})
OPTIONAL MATCH (p:Lesson {uid: row.parent_uid})
OPTIONAL MATCH (u)-[:PREFERS]->(:Lesson)-[:REVISES*0..]->(next:Lesson) WHERE next.version = l.version + 1
FOREACH (_ IN CASE WHEN p IS NULL THEN [] ELSE [1] END | MERGE (l)-[:REVISES]->(p))
FOREACH (_ IN CASE WHEN next IS NULL THEN [] ELSE [1] END | MERGE (next)-[:REVISES]->(l))
MERGE (u)-[:PREFERS]->(l)
WITH DISTINCT u
MATCH (u)-[former:PREFERS]->(l:Lesson)
WHERE EXISTS { (:Lesson)-[:REVISES]->(l) }
DELETE former
