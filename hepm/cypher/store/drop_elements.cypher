// Delete nodes that derive from records.
// Params:  $rows list of maps {element}
UNWIND $rows AS row
MATCH (n) WHERE elementId(n) = row.element
DETACH DELETE n
