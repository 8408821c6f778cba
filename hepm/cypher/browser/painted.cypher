// Which ways do agents take, and where do they fail? Empty until `hepm neo4j paint`.
// Params:  $namespace string, $limit int = 25
// Returns: way path, runs int
// Note:    An arrow's width is its weight, its colour its share of failed runs. NEXT itself has one width and colour.
MATCH p = (:Tool {namespace: $namespace})-[r:!NEXT]->(:Tool)
RETURN p AS way, r.support + r.failures AS runs
ORDER BY runs DESC
LIMIT $limit
