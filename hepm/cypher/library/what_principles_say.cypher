// What do the principles with most runs behind them say of which concepts?
// Params:  $namespace string, $limit int = 25
// Returns: way path, runs int
// Note:    From the principle to its concepts, and between them what it says.
// Picture: yes
MATCH p = (q:Principle {namespace: $namespace})-[:MENTIONS]->(one:Concept)-[said:RELATES]->(other:Concept)
WHERE q.live AND said.principle = q.id
RETURN p AS way, size(q.runs) AS runs
ORDER BY runs DESC, q.id, one.name, said.predicate, other.name
LIMIT $limit
