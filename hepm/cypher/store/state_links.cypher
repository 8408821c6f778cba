// The states that are found from each tool before them.
// Params:  $space string
// Returns: tool string, sources list, targets list, success boolean, key int
// Index:   state_arrival
MATCH (s:State)-[:AFTER]->(t:Tool) WHERE s.space = $space AND s.id > 0
RETURN t.name AS tool, s.sources AS sources, s.targets AS targets, s.success AS success, s.key AS key
