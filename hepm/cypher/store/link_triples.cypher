// What principles say, for Cypher to walk.
// Params:  $space string, $namespace string, $rows list of maps {lesson, lesson_uid, triples: maps {subject_uid, subject, predicate, object_uid, object}}
// Index:   lesson_uid, concept_uid
UNWIND $rows AS row
MATCH (l:Lesson {uid: row.lesson_uid})
UNWIND row.triples AS triple
MERGE (a:Concept {uid: triple.subject_uid})
ON CREATE SET a.space = $space, a.namespace = $namespace, a.name = triple.subject
MERGE (b:Concept {uid: triple.object_uid})
ON CREATE SET b.space = $space, b.namespace = $namespace, b.name = triple.object
MERGE (l)-[:MENTIONS]->(a)
MERGE (l)-[:MENTIONS]->(b)
MERGE (a)-[:RELATES {predicate: triple.predicate, principle: row.lesson}]->(b)
