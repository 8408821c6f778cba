// Of moves with too many states let the least recent go, ties by key: a property of the states themselves, not of
// the order they came in. They keep their count.
// Params:  $rows list of maps {move, bound}
// Returns: move string
// Index:   state_move
UNWIND $rows AS row
MATCH (s:State {move: row.move, kept: true})
WITH row, s ORDER BY s.seen, s.key
WITH row.move AS move, row.bound AS bound, collect(s) AS states WHERE size(states) > bound
UNWIND states[..size(states) - bound] AS s
SET s.kept = false
REMOVE s.summary, s.embedding, s.vector
WITH move, s
MATCH (s)-[link:AFTER|BEFORE]->()
DELETE link
RETURN DISTINCT move
