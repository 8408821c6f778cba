// What was shown in runs.
// Params:  $uids list of strings
// Returns: run string, lesson string, success boolean
// Index:   showing_uid
UNWIND $uids AS uid
MATCH (s:Showing {uid: uid})-[r:SHOWED]->(l:Lesson)
RETURN s.run AS run, l.id AS lesson, r.success AS success
