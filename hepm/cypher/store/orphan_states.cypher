// States that lack their links or the run they come from.
// Params:  $space string
// Returns: found int
// Index:   state_arrival
MATCH (s:State) WHERE s.space = $space AND s.id > 0 AND s.kept
  AND (NOT EXISTS { (s)-[:AFTER]->(:Tool) } OR NOT EXISTS { (s)-[:BEFORE]->(:Tool) })
RETURN count(s) AS found
