// Sessions of experiments, in order of arrival.
// Params:  $space string
// Returns: seq int, id string, arm string, steps int, ended_at float, environment string, task string, success boolean, level string, trial string
// Index:   trajectory_arm
MATCH (t:Trajectory) WHERE t.space = $space AND t.arm IN ['control', 'memory'] AND t.seq > 0
RETURN t.seq AS seq, t.id AS id, t.arm AS arm, t.steps AS steps, t.ended_at AS ended_at, t.environment AS environment,
       t.task AS task, t.success AS success, t.level AS level, t.trial AS trial
ORDER BY seq
