// States that kept their text and have no vector.
// Params:  $space string
// Returns: id int, summary string
// Index:   state_arrival
MATCH (s:State) WHERE s.space = $space AND s.id > 0 AND s.kept AND s.vector IS NULL
RETURN s.id AS id, s.summary AS summary ORDER BY id
