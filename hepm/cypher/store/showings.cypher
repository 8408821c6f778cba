// All that was shown in a namespace.
// Params:  $space string
// Returns: run string, lesson string, success boolean
// Index:   showing_space
MATCH (s:Showing {space: $space})-[r:SHOWED]->(l:Lesson)
RETURN s.run AS run, l.id AS lesson, r.success AS success
