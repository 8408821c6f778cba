// Namespaces that hold anything.
// Params:  none
// Returns: name string, space string
// Index:   trajectory_arrival, tool_space
MATCH (n:Namespace)
WHERE EXISTS { MATCH (t:Trajectory) WHERE t.space = n.space AND t.seq > 0 } OR EXISTS { MATCH (:Tool {space: n.space}) }
RETURN n.name AS name, n.space AS space
