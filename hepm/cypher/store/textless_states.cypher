// Those without text among the latest states of each move (see keep_bound).
// Params:  $moves list of strings, $bound int
// Returns: move string, key int, count int, trajectory string, step int
// Index:   state_move
UNWIND $moves AS move
CALL (move) {
    MATCH (s:State) WHERE s.move = move AND s.kept IS NOT NULL
    RETURN s ORDER BY s.seen DESC, s.key DESC LIMIT $bound
}
WITH move, s WHERE NOT s.kept
RETURN move, s.key AS key, s.count AS count, s.trajectory AS trajectory, s.step AS step
