// Say whether a run counts.
// Params:  $uid string, $counted boolean
// Index:   trajectory_uid
MATCH (t:Trajectory {uid: $uid}) SET t.counted = $counted
