// Where did the runs take place, and how did they end?
// Params:  $namespace string
// Returns: environment string, runs int, successes int, failures int, unlabelled int, tasks int, mean_steps float
MATCH (t:Trajectory {namespace: $namespace})
RETURN t.environment AS environment, count(*) AS runs, sum(CASE WHEN t.success THEN 1 ELSE 0 END) AS successes,
       sum(CASE WHEN NOT t.success THEN 1 ELSE 0 END) AS failures,
       sum(CASE WHEN t.success IS NULL THEN 1 ELSE 0 END) AS unlabelled, count(DISTINCT t.task) AS tasks,
       avg(t.steps) AS mean_steps
ORDER BY runs DESC, environment
