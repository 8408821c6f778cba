// Which lessons lie around a tool?
// Params:  $namespace string, $tool string, $limit int = 25
// Returns: way path, score float, uses int
// Picture: yes
MATCH p = (:Tool {namespace: $namespace, name: $tool})<-[:ABOUT]-(l:Experience|Principle|Notes)
WHERE l.live
RETURN p AS way, l.score AS score, l.uses AS uses
ORDER BY score DESC, uses DESC, size(l.runs) DESC, l.id
LIMIT $limit
