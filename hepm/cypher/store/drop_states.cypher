// Delete the states of some moves.
// Params:  $moves list of strings
// Index:   state_move
UNWIND $moves AS move
MATCH (s:State) WHERE s.move = move AND s.kept IS NOT NULL
DETACH DELETE s
