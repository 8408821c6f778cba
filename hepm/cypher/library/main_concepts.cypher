// What do most principles speak of?
// Params:  $namespace string, $limit int = 20
// Returns: concept string, principles int, guiding int, cautionary int, mean_score float
MATCH (c:Concept {namespace: $namespace})<-[:MENTIONS]-(p:Principle)
WHERE p.live
RETURN c.name AS concept, count(p) AS principles, sum(CASE WHEN p.kind = 'guiding' THEN 1 ELSE 0 END) AS guiding,
       sum(CASE WHEN p.kind = 'cautionary' THEN 1 ELSE 0 END) AS cautionary, avg(p.score) AS mean_score
ORDER BY principles DESC, concept
LIMIT $limit
