MATCH p = (:Tool {namespace: $namespace, name: $from})-[:NEXT* TRAIL 1..3 (r, n | WHERE r.support > 0)]->
          (:Tool {namespace: $namespace, name: $to})
WITH properties(nodes(p), 'name') AS route, properties(rels(p), 'support') AS supports
UNWIND supports AS support
WITH route, min(support) AS weakest
RETURN route, size(route) - 1 AS steps, weakest
ORDER BY weakest DESC, steps, ' ' + list_to_string(' ', route)
LIMIT $limit
