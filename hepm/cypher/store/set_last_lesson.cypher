// Say which number the lesson that came last has.
// Params:  $space string, $namespace string, $seq int
// Index:   namespace_space
MERGE (n:Namespace {space: $space})
ON CREATE SET n.name = $namespace, n.last_run = 0, n.last_state = 0
SET n.last_lesson = $seq
