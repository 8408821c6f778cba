// The last revision that the journal knows, and the size of the stored vectors.
// Params:  none
// Returns: revision int, dimensions int
// Index:   change_revision
OPTIONAL MATCH (c:Change) WHERE c.revision > 0
WITH coalesce(max(c.revision), 0) AS revision
RETURN revision, coalesce(COLLECT { MATCH (s:State) WHERE s.space > '' AND s.embedding IS NOT NULL
                                    RETURN size(s.embedding) LIMIT 1 }[0], 0) AS dimensions
