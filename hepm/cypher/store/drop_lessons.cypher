// Delete lessons, what they say, and concepts and users that nothing speaks of any more; of notes an older version
// takes the place.
// Params:  $rows list of maps {lesson_uid}
// Index:   lesson_uid
UNWIND $rows AS row
MATCH (l:Lesson {uid: row.lesson_uid})
OPTIONAL MATCH (l)-[:MENTIONS]->(c:Concept)
OPTIONAL MATCH (c)-[r:RELATES {principle: l.id}]->()
WITH l, collect(DISTINCT c) AS concepts, collect(DISTINCT r) AS said
OPTIONAL MATCH (l)<-[:REVISES*0..]-(:Lesson)<-[:PREFERS]-(u:User)
OPTIONAL MATCH (l)-[:REVISES*1..]->(rest:Lesson) WHERE u IS NOT NULL AND NOT rest.uid IN [row IN $rows | row.lesson_uid]
WITH l, concepts, said, u, rest ORDER BY rest.version DESC
WITH l, concepts, said, collect(DISTINCT u) AS users, collect(rest)[..1] AS older
FOREACH (user IN users | FOREACH (notes IN older | MERGE (user)-[:PREFERS]->(notes)))
FOREACH (one IN said | DELETE one)
DETACH DELETE l
WITH concepts, users
UNWIND concepts + users AS lone
WITH DISTINCT lone WHERE NOT (lone)--()
DELETE lone
