MATCH p = (:Tool {namespace: $namespace, name: $from})-[:NEXT* ALL SHORTEST 1..6]->
          (:Tool {namespace: $namespace, name: $to})
RETURN p AS route, length(p) AS steps
ORDER BY ' ' + list_to_string(' ', properties(nodes(p), 'name'))
LIMIT $limit
