// Leave the agent's own summary tool out of the calls of runs.
// Params:  $space string, $name string
// Index:   trajectory_arrival
MATCH (t:Trajectory)
WHERE t.space = $space AND t.seq > 0 AND $name IN t.tools
SET t.tools = [tool IN t.tools WHERE tool <> $name]
