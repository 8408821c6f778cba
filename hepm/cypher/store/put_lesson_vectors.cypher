// Attach vectors to lessons; those that are gone are passed over.
// Params:  $changed int, $rows list of maps {uid, embedding, vector}
// Index:   lesson_uid
UNWIND $rows AS row
MATCH (l:Lesson {uid: row.uid})
SET l.embedding = row.embedding, l.vector = row.vector, l.changed = $changed
