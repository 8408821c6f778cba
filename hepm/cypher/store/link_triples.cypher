// What principles say, for Cypher to walk.
// Params:  $space string, $namespace string, $rows list of maps {lesson, lesson_uid, subject_uid, subject, predicate, object_uid, object}
// Index:   lesson_uid, concept_uid
UNWIND $rows AS row
MATCH (l:Lesson {uid: row.lesson_uid})
MERGE (a:Concept {uid: row.subject_uid})
ON CREATE SET a.space = $space, a.namespace = $namespace, a.name = row.subject
MERGE (b:Concept {uid: row.object_uid})
ON CREATE SET b.space = $space, b.namespace = $namespace, b.name = row.object
MERGE (l)-[:MENTIONS]->(a)
MERGE (l)-[:MENTIONS]->(b)
MERGE (a)-[:RELATES {predicate: row.predicate, principle: row.lesson}]->(b)
