// Delete answers about a user.
// Params:  $uid string
// Index:   answer_user
MATCH (a:Answer {user_uid: $uid})
DELETE a
