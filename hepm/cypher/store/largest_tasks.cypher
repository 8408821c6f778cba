// Tasks by the number of their labelled runs: one of these, how many succeeded and how many failed.
// Params:  $space string, $most int
// Returns: environment string, task string, run string, successes int, failures int
// Index:   trajectory_arrival
MATCH (t:Trajectory) WHERE t.space = $space AND t.seq > 0 AND t.task <> '' AND t.success IS NOT NULL
WITH t.environment AS environment, t.task AS task, min(t.id) AS run, count(*) AS runs,
     count(CASE WHEN t.success THEN 1 END) AS successes
WHERE runs > 1
RETURN environment, task, run, successes, runs - successes AS failures
ORDER BY runs DESC, environment, task LIMIT $most
