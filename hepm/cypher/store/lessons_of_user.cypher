// A user's own lessons, all versions, in order of arrival.
// Params:  $uid string
// Returns: seq int, record string
// Index:   user_uid
MATCH (:User {uid: $uid})-[:PREFERS]->(:Lesson)-[:REVISES*0..]->(l:Lesson)
RETURN DISTINCT l.seq AS seq, l.record AS record ORDER BY seq
