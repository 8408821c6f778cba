// Which lessons are from a single run?
// Params:  $namespace string, $limit int = 50
// Returns: lesson string, what string, text string, trajectory string, shown int, uses int, score float
// Note:    The lessons shown most often come first: there a chance result costs most.
MATCH (l:Experience|Principle {namespace: $namespace})
WHERE l.live AND size(l.runs) = 1
RETURN l.id AS lesson,
       CASE WHEN l.zone IS NOT NULL THEN l.zone + ' experience'
            WHEN l.kind IS NOT NULL THEN l.kind + ' principle' END AS what,
       coalesce(l.lesson, l.text) AS text, l.runs[-1] AS trajectory, l.shown AS shown, l.uses AS uses,
       l.score AS score
ORDER BY shown DESC, lesson
LIMIT $limit
