// Between which two tools do runs go back and forth?
// Params:  $namespace string, $limit int = 20
// Returns: tool string, other string, there int, back int, failure_share float
MATCH (a:Tool {namespace: $namespace})-[there:NEXT]->(b:Tool)-[back:NEXT]->(a)
WHERE a.name < b.name
WITH a.name AS tool, b.name AS other, there.support + there.failures + there.unlabelled AS there_runs,
     back.support + back.failures + back.unlabelled AS back_runs,
     there.failures + back.failures AS failed, there.support + back.support AS succeeded
RETURN tool, other, there_runs AS there, back_runs AS back,
       CASE WHEN failed + succeeded > 0 THEN 1.0 * failed / (failed + succeeded) ELSE 0.0 END AS failure_share
ORDER BY CASE WHEN there_runs < back_runs THEN there_runs ELSE back_runs END DESC, tool, other
LIMIT $limit
