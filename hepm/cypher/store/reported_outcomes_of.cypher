// Outcomes that were reported of some runs.
// Params:  $uids list of strings
// Returns: run string, told boolean
// Index:   showing_uid
UNWIND $uids AS uid
MATCH (s:Showing {uid: uid}) WHERE s.told IS NOT NULL
RETURN s.run AS run, s.told AS told
