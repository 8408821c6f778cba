// What are the shortest paths from one tool to another?
// Params:  $namespace string, $from string, $to string, $limit int = 20
// Returns: route path, steps int
// Note:    Both tools must differ.
// Picture: yes
MATCH p = allShortestPaths((:Tool {namespace: $namespace, name: $from})-[:NEXT*..6]->
                           (:Tool {namespace: $namespace, name: $to}))
RETURN p AS route, length(p) AS steps
ORDER BY reduce(names = '', n IN nodes(p) | names + ' ' + n.name)
LIMIT $limit
