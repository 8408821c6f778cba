// Counts of everything in a namespace.
// Params:  $space string, $start string
// Returns: trajectories int, successes int, failures int, unlabelled int, tools int, edges int, states int, experiences int, principles int, notes int
// Index:   trajectory_arrival, tool_space, state_arrival, lesson_changed
OPTIONAL MATCH (t:Trajectory) WHERE t.space = $space AND t.seq > 0
WITH count(t) AS trajectories, count(CASE WHEN t.success THEN 1 END) AS successes,
     count(CASE WHEN NOT t.success THEN 1 END) AS failures
OPTIONAL MATCH (tool:Tool {space: $space}) WHERE tool.name <> $start
WITH trajectories, successes, failures, count(tool) AS tools
OPTIONAL MATCH (:Tool {space: $space})-[r:NEXT]->()
WITH trajectories, successes, failures, tools, count(r) AS edges
OPTIONAL MATCH (s:State) WHERE s.space = $space AND s.id > 0 AND s.kept
WITH trajectories, successes, failures, tools, edges, count(s) AS states
OPTIONAL MATCH (l:Lesson) WHERE l.space = $space AND l.changed > 0 AND l.live
RETURN trajectories, successes, failures, trajectories - successes - failures AS unlabelled, tools, edges, states,
       count(CASE WHEN l:Experience THEN 1 END) AS experiences, count(CASE WHEN l:Principle THEN 1 END) AS principles,
       count(CASE WHEN l:Notes THEN 1 END) AS notes
