// Runs that a step has an answer about.
// Params:  $space string, $step string
// Returns: run string
// Index:   answer_step
MATCH (a:Answer {space: $space, step: $step})
RETURN DISTINCT a.run AS run
