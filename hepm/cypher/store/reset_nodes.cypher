// Reset damaged properties of nodes; null takes one away.
// Params:  $rows list of maps {element, values}
UNWIND $rows AS row
MATCH (n) WHERE elementId(n) = row.element
SET n += row.values
