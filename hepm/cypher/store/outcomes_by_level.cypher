// Of the latest sessions of some levels that have an outcome: how many succeeded, and how many there are.
// Params:  $space string, $levels list of strings, $most int
// Returns: level string, succeeded int, sessions int
// Index:   trajectory_level
UNWIND $levels AS level
CALL (level) {
    MATCH (t:Trajectory)
    WHERE t.space = $space AND t.level = level AND t.seq > 0 AND t.success IS NOT NULL
    WITH t.success AS success, t.seq AS seq ORDER BY seq DESC LIMIT $most
    RETURN count(CASE WHEN success THEN 1 END) AS succeeded, count(*) AS sessions
}
RETURN level, succeeded, sessions
