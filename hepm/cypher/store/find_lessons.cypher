// Lessons by uid, in order of arrival.
// Params:  $uids list of strings
// Returns: seq int, id string, record string, shown int, uses int, successes int, vector bytes
// Index:   lesson_uid
UNWIND $uids AS uid
MATCH (l:Lesson {uid: uid})
RETURN l.seq AS seq, l.id AS id, l.record AS record, l.shown AS shown, l.uses AS uses, l.successes AS successes,
       l.vector AS vector ORDER BY seq
