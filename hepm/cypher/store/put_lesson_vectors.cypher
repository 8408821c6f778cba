// Attach vectors to lessons; those that are gone are passed over.
// Params:  $changed int, $rows list of maps {lesson_uid, embedding, vector}
// Index:   lesson_uid
UNWIND $rows AS row
MATCH (l:Lesson {uid: row.lesson_uid})
SET l.embedding = row.embedding, l.vector = row.vector, l.changed = $changed
