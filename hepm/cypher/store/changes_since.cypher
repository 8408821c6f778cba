// What later revisions touched, oldest first.
// Params:  $revision int
// Returns: revision int, namespace string, sources string, rewritten int
// Index:   change_revision
MATCH (c:Change) WHERE c.revision > $revision
RETURN c.revision AS revision, c.namespace AS namespace, c.sources AS sources, c.rewritten AS rewritten
ORDER BY revision
