// Paint a namespace for Browser, whose styles see types alone: each edge again, under a type for width and colour.
// Params:  $namespace string
// Returns: painted int
// Note:    Width is weight: from .3 MOSTLY, from .1 OFTEN, else RARELY. Colour is failure share: below .2 WELL, below .5
//          MIXED, else BADLY. Edges of unlabelled runs alone stay unpainted. clear_paint.cypher comes before it.
MATCH (a:Tool {namespace: $namespace})-[r:NEXT]->(b:Tool)
WHERE r.support + r.failures > 0
WITH a, b, r { .support, .failures, .weight, .failure_share, .summaries } AS told,
     CASE WHEN r.weight >= 0.3 THEN 'MOSTLY' WHEN r.weight >= 0.1 THEN 'OFTEN' ELSE 'RARELY' END AS width,
     CASE WHEN r.failure_share < 0.2 THEN 'WELL' WHEN r.failure_share < 0.5 THEN 'MIXED' ELSE 'BADLY' END AS colour
WITH a, b, told, width + ' ' + colour AS type
FOREACH (_ IN CASE type WHEN 'MOSTLY WELL' THEN [1] ELSE [] END | CREATE (a)-[p:MOSTLY_WELL]->(b) SET p = told)
FOREACH (_ IN CASE type WHEN 'MOSTLY MIXED' THEN [1] ELSE [] END | CREATE (a)-[p:MOSTLY_MIXED]->(b) SET p = told)
FOREACH (_ IN CASE type WHEN 'MOSTLY BADLY' THEN [1] ELSE [] END | CREATE (a)-[p:MOSTLY_BADLY]->(b) SET p = told)
FOREACH (_ IN CASE type WHEN 'OFTEN WELL' THEN [1] ELSE [] END | CREATE (a)-[p:OFTEN_WELL]->(b) SET p = told)
FOREACH (_ IN CASE type WHEN 'OFTEN MIXED' THEN [1] ELSE [] END | CREATE (a)-[p:OFTEN_MIXED]->(b) SET p = told)
FOREACH (_ IN CASE type WHEN 'OFTEN BADLY' THEN [1] ELSE [] END | CREATE (a)-[p:OFTEN_BADLY]->(b) SET p = told)
FOREACH (_ IN CASE type WHEN 'RARELY WELL' THEN [1] ELSE [] END | CREATE (a)-[p:RARELY_WELL]->(b) SET p = told)
FOREACH (_ IN CASE type WHEN 'RARELY MIXED' THEN [1] ELSE [] END | CREATE (a)-[p:RARELY_MIXED]->(b) SET p = told)
FOREACH (_ IN CASE type WHEN 'RARELY BADLY' THEN [1] ELSE [] END | CREATE (a)-[p:RARELY_BADLY]->(b) SET p = told)
RETURN count(*) AS painted
