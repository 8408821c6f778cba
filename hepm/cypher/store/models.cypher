// Models of the latest runs.
// Params:  $space string, $most int
// Returns: model string
// Index:   trajectory_arrival
MATCH (t:Trajectory) WHERE t.space = $space AND t.seq > 0
WITH t ORDER BY t.seq DESC LIMIT $most
WITH DISTINCT t.model AS model WHERE model <> ''
RETURN model ORDER BY model
