// Whether the latest sessions of some levels succeeded that have an outcome.
// Params:  $space string, $levels list of strings, $most int
// Returns: level string, succeeded list
// Index:   trajectory_level
UNWIND $levels AS level
CALL (level) {
    MATCH (t:Trajectory)
    WHERE t.space = $space AND t.level = level AND t.seq > 0 AND t.success IS NOT NULL
    WITH t.success AS success, t.seq AS seq ORDER BY seq DESC LIMIT $most
    RETURN collect(success) AS succeeded
}
RETURN level, succeeded
