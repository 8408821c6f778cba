// How do the models compare: runs, successes, and how long they take?
// Params:  $namespace string
// Returns: model string, runs int, successes int, failures int, success_share float, mean_steps float
MATCH (t:Trajectory {namespace: $namespace})
WITH t.model AS model, count(*) AS runs, sum(CASE WHEN t.success THEN 1 ELSE 0 END) AS successes,
     sum(CASE WHEN NOT t.success THEN 1 ELSE 0 END) AS failures, avg(t.steps) AS mean_steps
RETURN model, runs, successes, failures,
       CASE WHEN successes + failures > 0 THEN 1.0 * successes / (successes + failures) END AS success_share,
       mean_steps
ORDER BY runs DESC, model
