// Which lessons were never shown, or shown in runs of unknown outcome?
// Params:  $namespace string, $limit int = 50
// Returns: lesson string, what string, text string, shown int, runs int
MATCH (l:Experience|Principle {namespace: $namespace})
WHERE l.live AND l.uses = 0
RETURN l.id AS lesson,
       CASE WHEN l.zone IS NOT NULL THEN l.zone + ' experience'
            WHEN l.kind IS NOT NULL THEN l.kind + ' principle' END AS what,
       coalesce(l.lesson, l.text) AS text, l.shown AS shown, size(l.runs) AS runs
ORDER BY shown DESC, runs DESC, lesson
LIMIT $limit
