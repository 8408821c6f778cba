// Those without text among the latest states of each move (see keep_bound).
// Params:  $rows list of maps {at, move, bound}
// Returns: at int, key int, count int, trajectory string, step int
// Index:   state_move
UNWIND $rows AS row
CALL (row) {
    MATCH (s:State) WHERE s.move = row.move AND s.kept IS NOT NULL
    WITH s ORDER BY s.seen DESC, s.key DESC
    RETURN collect(s) AS latest
}
UNWIND latest[..row.bound] AS s
WITH row, s WHERE NOT s.kept
RETURN row.at AS at, s.key AS key, s.count AS count, s.trajectory AS trajectory, s.step AS step
