// Outcomes that were reported of runs.
// Params:  $space string
// Returns: run string, told boolean
// Index:   showing_space
MATCH (s:Showing {space: $space}) WHERE s.told IS NOT NULL
RETURN s.run AS run, s.told AS told
