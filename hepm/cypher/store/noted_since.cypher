// Whether a write is in the journal after a revision.
// Params:  $revision int, $attempt string
// Returns: found boolean
// Index:   change_revision
RETURN EXISTS { MATCH (c:Change) WHERE c.revision > $revision AND c.attempt = $attempt } AS found
