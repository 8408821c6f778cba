// Which lessons was one run shown, and how did it end?
// Params:  $namespace string, $trajectory string
// Returns: lesson string, what string, text string, success boolean, score float, uses int
// Note:    The run need not be stored. While it is under way, its success is unknown. The score covers all runs that were shown the lesson.
MATCH (:Showing {namespace: $namespace, run: $trajectory})-[shown:SHOWED]->(l:Experience|Principle|Notes)
RETURN l.id AS lesson,
       CASE WHEN l.zone IS NOT NULL THEN l.zone + ' experience'
            WHEN l.kind IS NOT NULL THEN l.kind + ' principle' ELSE 'notes' END AS what,
       coalesce(l.lesson, l.text) AS text, shown.success AS success, l.score AS score, l.uses AS uses
ORDER BY what, lesson
