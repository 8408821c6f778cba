// Subtract from the counts of states.
// Params:  $rows list of maps {uid, count}
// Returns: uid string, count int, trajectory string, kept boolean
// Index:   state_uid
UNWIND $rows AS row
MATCH (s:State {uid: row.uid})
SET s.count = s.count - row.count
RETURN row.uid AS uid, s.count AS count, s.trajectory AS trajectory, s.kept AS kept
