// Of moves with too many states let the least recent go, ties by key: a property of the states themselves, not of
// the order they came in. They keep their count.
// Params:  $moves list of strings, $bound int
// Returns: move string
// Index:   state_move
UNWIND $moves AS move
MATCH (s:State {move: move, kept: true})
WITH move, s ORDER BY s.seen, s.key
WITH move, collect(s) AS states WHERE size(states) > $bound
UNWIND states[..size(states) - $bound] AS s
SET s.kept = false
REMOVE s.summary, s.embedding, s.vector
WITH move, s
MATCH (s)-[link:AFTER|BEFORE]->()
DELETE link
RETURN DISTINCT move
