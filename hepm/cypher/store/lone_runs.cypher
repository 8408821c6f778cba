// How many labelled runs no other one shares its task with, and how many labelled runs there are.
// Params:  $space string
// Returns: alone int, runs int
// Index:   trajectory_arrival
MATCH (t:Trajectory) WHERE t.space = $space AND t.seq > 0 AND t.success IS NOT NULL
WITH t.environment AS environment, t.task AS task, count(*) AS runs
RETURN coalesce(sum(CASE WHEN task = '' OR runs = 1 THEN runs END), 0) AS alone, coalesce(sum(runs), 0) AS runs
