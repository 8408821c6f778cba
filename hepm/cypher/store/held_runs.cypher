// Every run whole, in order of arrival.
// Params:  $space string
// Returns: id string, digest string, environment string, task string, model string, user string, reward float, success boolean, steps int, ended_at float, source string, said string, token string, level string, arm string, trial string, refused string, sequence string, record string, counted boolean, vector bytes
// Index:   trajectory_arrival
MATCH (t:Trajectory) WHERE t.space = $space AND t.seq > 0
RETURN t.id AS id, t.digest AS digest, t.environment AS environment, t.task AS task, t.model AS model, t.user AS user,
       t.reward AS reward, t.success AS success, t.steps AS steps, t.ended_at AS ended_at, t.source AS source,
       t.said AS said, coalesce(t.token, '') AS token, coalesce(t.level, '') AS level, coalesce(t.arm, '') AS arm,
       coalesce(t.trial, '') AS trial, coalesce(t.refused, '') AS refused, t.sequence AS sequence,
       t.record AS record, t.counted AS counted, t.said_vector AS vector ORDER BY t.seq
