// Subtract from the counts of states.
// Params:  $rows list of maps {at, uid, count}
// Returns: at int, count int, trajectory string, kept boolean
// Index:   state_uid
UNWIND $rows AS row
MATCH (s:State {uid: row.uid})
SET s.count = s.count - row.count
RETURN row.at AS at, s.count AS count, s.trajectory AS trajectory, s.kept AS kept
