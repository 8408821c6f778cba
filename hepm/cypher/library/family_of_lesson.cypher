// Which lessons did one evolve from, and what evolved from it?
// Params:  $namespace string, $lesson string
// Returns: way path, generations int
// Note:    An arrow points from child to parent and names the operator.
// Picture: yes
MATCH p = (young:Experience {namespace: $namespace})-[:EVOLVED_FROM*1..8]->(old:Experience)
WHERE young.id = $lesson OR old.id = $lesson
RETURN p AS way, length(p) AS generations
ORDER BY generations, young.id, old.id
