// Vectors of states, by the number of each in the list.
// Params:  $uids list of strings
// Returns: at int, vector bytes
// Index:   state_uid
UNWIND range(0, size($uids) - 1) AS at
MATCH (s:State {uid: $uids[at]}) WHERE s.vector IS NOT NULL
RETURN at, s.vector AS vector
