// Namespaces that hold anything.
// Params:  none
// Returns: name string, space string
// Index:   trajectory_arrival, tool_space, lesson_changed
MATCH (n:Namespace)
WHERE EXISTS { MATCH (t:Trajectory) WHERE t.space = n.space AND t.seq > 0 } OR EXISTS { MATCH (:Tool {space: n.space}) }
   OR EXISTS { MATCH (l:Lesson) WHERE l.space = n.space AND l.changed > 0 }
RETURN n.name AS name, n.space AS space
