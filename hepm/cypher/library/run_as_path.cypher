// Which path did one run take through the graph?
// Params:  $namespace string, $trajectory string
// Returns: step path, support int, failures int
// Note:    The edges of the run, each once. `run_in_order` lists its calls in order.
// Picture: yes
MATCH (:Trajectory {namespace: $namespace, id: $trajectory})-[took:TOOK]->(b:Tool)
WITH took.after AS after, b
MATCH p = (a:Tool {namespace: $namespace})-[r:NEXT]->(b)
WHERE a.name = after
RETURN p AS step, r.support AS support, r.failures AS failures
ORDER BY a.name, b.name
