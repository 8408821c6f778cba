// What was learned about a tool?
// Params:  $namespace string, $tool string, $limit int = 20
// Returns: lesson string, what string, text string, score float, uses int, runs int
// Note:    Retired lessons are left out. A score is (successes + 1) / (uses + 2): .5 without uses.
MATCH (:Tool {namespace: $namespace, name: $tool})<-[:ABOUT]-(l:Experience|Principle|Notes)
WHERE l.live
RETURN l.id AS lesson,
       CASE WHEN l.zone IS NOT NULL THEN l.zone + ' experience'
            WHEN l.kind IS NOT NULL THEN l.kind + ' principle' ELSE 'notes' END AS what,
       coalesce(l.lesson, l.text) AS text, l.score AS score, l.uses AS uses, size(l.runs) AS runs
ORDER BY score DESC, uses DESC, runs DESC, lesson
LIMIT $limit
