// Delete every edge of a namespace.
// Params:  $space string
// Index:   tool_space
MATCH (:Tool {space: $space})-[r:NEXT]->() DELETE r
