// Delete lessons, what they say, and concepts and users that nothing speaks of any more.
// Params:  $uids list of strings
// Index:   lesson_uid
UNWIND $uids AS uid
MATCH (l:Lesson {uid: uid})
OPTIONAL MATCH (l)-[:MENTIONS]->(c:Concept)
OPTIONAL MATCH (c)-[r:RELATES {principle: l.id}]->()
OPTIONAL MATCH (u:User)-[:PREFERS]->(l)
WITH l, collect(DISTINCT c) AS concepts, collect(DISTINCT r) AS said, collect(DISTINCT u) AS users
FOREACH (one IN said | DELETE one)
DETACH DELETE l
WITH concepts, users
UNWIND concepts + users AS lone
WITH DISTINCT lone WHERE NOT (lone)--()
DELETE lone
