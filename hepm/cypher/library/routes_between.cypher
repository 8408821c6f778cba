// By which routes did successful runs get from one tool to another, and how often was each taken?
// Params:  $namespace string, $from string, $to string, $limit int = 20
// Returns: route list of strings, steps int, weakest int
// Note:    At most three steps. A route is made of edges: no single run need have taken all of it.
MATCH p = (:Tool {namespace: $namespace, name: $from})-[:NEXT*1..3]->(:Tool {namespace: $namespace, name: $to})
WHERE all(r IN relationships(p) WHERE r.support > 0)
WITH [n IN nodes(p) | n.name] AS route, [r IN relationships(p) | r.support] AS supports
UNWIND supports AS support
WITH route, min(support) AS weakest
RETURN route, size(route) - 1 AS steps, weakest
ORDER BY weakest DESC, steps, reduce(names = '', name IN route | names + ' ' + name)
LIMIT $limit
