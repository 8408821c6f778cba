// Delete relationships that derive from records.
// Params:  $rows list of maps {element}
UNWIND $rows AS row
MATCH ()-[r]->() WHERE elementId(r) = row.element
DELETE r
