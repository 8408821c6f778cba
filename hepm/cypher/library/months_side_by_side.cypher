// How do the months compare: runs, successes, and how long they take?
// Params:  $namespace string
// Returns: month string, runs int, successes int, failures int, success_share float, mean_steps float
// Note:    Runs without a time are left out.
MATCH (t:Trajectory {namespace: $namespace})
WHERE t.day IS NOT NULL
WITH left(t.day, 7) AS month, count(*) AS runs, sum(CASE WHEN t.success THEN 1 ELSE 0 END) AS successes,
     sum(CASE WHEN NOT t.success THEN 1 ELSE 0 END) AS failures, avg(t.steps) AS mean_steps
RETURN month, runs, successes, failures,
       CASE WHEN successes + failures > 0 THEN 1.0 * successes / (successes + failures) END AS success_share,
       mean_steps
ORDER BY month
