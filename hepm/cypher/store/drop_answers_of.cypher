// Delete answers about a user.
// Params:  $rows list of maps {user_uid}
// Index:   answer_user
UNWIND $rows AS row
MATCH (a:Answer {user_uid: row.user_uid})
DELETE a
