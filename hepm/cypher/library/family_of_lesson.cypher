// Which lessons did one evolve from, and what evolved from it?
// Params:  $namespace string, $lesson string
// Returns: way path, generations int
// Note:    An arrow leads from the younger to the older one, and names the operator.
// Picture: yes
MATCH p = (:Experience {namespace: $namespace, id: $lesson})-[:EVOLVED_FROM*1..8]->(:Experience)
RETURN p AS way, length(p) AS generations
UNION
MATCH p = (:Experience {namespace: $namespace})-[:EVOLVED_FROM*1..8]->(old:Experience {namespace: $namespace, id: $lesson})
RETURN p AS way, length(p) AS generations
