// Answers by uid.
// Params:  $uids list of strings
// Returns: key string, step string, run string, text string, usage string, user string
// Index:   answer_uid
UNWIND $uids AS uid
MATCH (a:Answer {uid: uid})
RETURN a.key AS key, a.step AS step, a.run AS run, a.text AS text, a.usage AS usage, a.user AS user ORDER BY key
