// Count the revision up and write down what it touched, so that mirrors read only that again.
// Params:  $namespace string, $space string, $sources string, $rewritten int, $last_run int, $last_state int, $last_lesson int, $kept int
// Index:   memory_key, namespace_space, change_revision
MATCH (m:Memory {key: 'memory'})
SET m.revision = m.revision + 1
CREATE (:Change {revision: m.revision, namespace: $namespace, sources: $sources, rewritten: $rewritten})
MERGE (n:Namespace {space: $space})
SET n.name = $namespace, n.last_run = $last_run, n.last_state = $last_state, n.last_lesson = $last_lesson
WITH m.revision - $kept AS oldest
MATCH (c:Change) WHERE c.revision <= oldest
DELETE c
