// Which lessons was one run shown, and how did it end?
// Params:  $namespace string, $trajectory string
// Returns: lesson string, what string, text string, success boolean, score float, uses int
// Note:    The run need not be stored: it may be under way, and its success is unknown then. The score is that of all runs which were shown the lesson.
MATCH (:Showing {namespace: $namespace, run: $trajectory})-[shown:SHOWED]->(l:Lesson)
RETURN l.id AS lesson, coalesce(l.zone + ' experience', l.kind + ' principle', 'notes') AS what,
       coalesce(l.lesson, l.text) AS text, shown.success AS success, l.score AS score, l.uses AS uses
ORDER BY what, lesson
