// Every answer of a namespace.
// Params:  $space string
// Returns: key string, step string, run string, text string, usage string, user string
// Index:   answer_step
MATCH (a:Answer) WHERE a.space = $space AND a.step IS NOT NULL
RETURN a.key AS key, a.step AS step, a.run AS run, a.text AS text, a.usage AS usage, a.user AS user
