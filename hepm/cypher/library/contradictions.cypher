// Which guiding and cautionary principles contradict each other?
// Params:  $namespace string, $says string = "followed_by", $denies string = "fails_after", $limit int = 20
// Returns: after string, tool string, says string, says_kind string, says_runs int, says_score float, denies string, denies_kind string, denies_runs int, denies_score float
// Note:    One says that a tool is followed_by another, the other one that it fails_after it, in the same environments. Principles made without a model use these predicates; a model's may differ.
MATCH (a:Concept {namespace: $namespace})-[one:RELATES]->(b:Concept)-[other:RELATES]->(a)
WHERE one.predicate = $says AND other.predicate = $denies
MATCH (a)<-[:MENTIONS]-(p:Principle)
WHERE p.live AND p.id = one.principle
MATCH (a)<-[:MENTIONS]-(q:Principle)
WHERE q.live AND q.id = other.principle AND p.kind <> q.kind AND p.environments = q.environments
RETURN a.name AS after, b.name AS tool, p.text AS says, p.kind AS says_kind, size(p.runs) AS says_runs,
       p.score AS says_score, q.text AS denies, q.kind AS denies_kind, size(q.runs) AS denies_runs,
       q.score AS denies_score
ORDER BY says_runs + denies_runs DESC, after, tool, says, denies
LIMIT $limit
