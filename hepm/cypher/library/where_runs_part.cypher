// After which tool do successful and failed runs diverge?
// Params:  $namespace string, $runs int = 5, $limit int = 20
// Returns: after string, tool string, share_of_successes float, share_of_failures float, difference float
// Note:    Tools with transitions of fewer than $runs successful or failed runs are left out. Shares are of the transitions taken.
MATCH (a:Tool {namespace: $namespace})-[r:NEXT]->(:Tool)
WITH a, sum(r.support) AS successes, sum(r.failures) AS failures
WHERE successes >= $runs AND failures >= $runs
MATCH (a)-[r:NEXT]->(b:Tool)
WITH a.name AS after, b.name AS tool, 1.0 * r.support / successes AS share_of_successes,
     1.0 * r.failures / failures AS share_of_failures
RETURN after, tool, share_of_successes, share_of_failures, share_of_successes - share_of_failures AS difference
ORDER BY abs(share_of_successes - share_of_failures) DESC, after, tool
LIMIT $limit
