// Which tools return errors most often?
// Params:  $namespace string, $calls int = 10, $limit int = 20
// Returns: tool string, calls int, errors int, error_share float
// Note:    Only errors that the records contain: a call of which they do not say whether it failed counts as one that did not. Tools with fewer than $calls calls are left out.
MATCH (t:Tool {namespace: $namespace})
WHERE t.calls >= $calls AND t.errors > 0
RETURN t.name AS tool, t.calls AS calls, t.errors AS errors, 1.0 * t.errors / t.calls AS error_share
ORDER BY error_share DESC, calls DESC, tool
LIMIT $limit
