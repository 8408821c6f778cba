// Lessons that are not tied to the stored runs behind them, or to others.
// Params:  $space string
// Returns: found int
// Index:   lesson_changed, trajectory_arrival
MATCH (t:Trajectory) WHERE t.space = $space AND t.seq > 0
WITH collect(t.id) AS stored
MATCH (l:Lesson) WHERE l.space = $space AND l.changed > 0
WITH l, [run IN l.runs WHERE run IN stored] AS runs, [(l)-[:FROM]->(t:Trajectory) | t.id] AS tied
WHERE size(runs) <> size(tied) OR any(run IN runs WHERE NOT run IN tied)
RETURN count(l) AS found
