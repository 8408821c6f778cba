// States that lack a link to a tool before or after them, or have another one.
// Params:  $space string
// Returns: found int
// Index:   state_arrival
MATCH (s:State) WHERE s.space = $space AND s.id > 0
WITH s, [(s)-[:AFTER]->(t:Tool) WHERE t.space = s.space | t.name] AS after,
     [(s)-[:BEFORE]->(t:Tool) WHERE t.space = s.space | t.name] AS before,
     CASE WHEN s.kept THEN s.sources ELSE [] END AS sources, CASE WHEN s.kept THEN s.targets ELSE [] END AS targets
WHERE size(after) <> size(sources) OR size(before) <> size(targets)
   OR any(name IN sources WHERE NOT name IN after) OR any(name IN targets WHERE NOT name IN before)
RETURN count(s) AS found
