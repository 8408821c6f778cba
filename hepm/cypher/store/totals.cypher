// Counts of everything in a namespace.
// Params:  $space string, $start string
// Returns: trajectories int, successes int, failures int, unlabelled int, tools int, edges int, states int
// Index:   trajectory_arrival, tool_space, state_arrival
OPTIONAL MATCH (t:Trajectory) WHERE t.space = $space AND t.seq > 0
WITH count(t) AS trajectories, count(CASE WHEN t.success THEN 1 END) AS successes,
     count(CASE WHEN NOT t.success THEN 1 END) AS failures
OPTIONAL MATCH (tool:Tool {space: $space}) WHERE tool.name <> $start
WITH trajectories, successes, failures, count(tool) AS tools
OPTIONAL MATCH (:Tool {space: $space})-[r:NEXT]->()
WITH trajectories, successes, failures, tools, count(r) AS edges
OPTIONAL MATCH (s:State) WHERE s.space = $space AND s.id > 0 AND s.kept
RETURN trajectories, successes, failures, trajectories - successes - failures AS unlabelled, tools, edges,
       count(s) AS states
