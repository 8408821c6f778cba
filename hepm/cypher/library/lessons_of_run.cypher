// What was learned from one run?
// Params:  $namespace string, $trajectory string
// Returns: lesson string, what string, text string, own_words boolean, live boolean, score float, uses int
// Note:    Lessons that quote the run are deleted when it is forgotten. The others stay, with their other runs.
MATCH (:Trajectory {namespace: $namespace, id: $trajectory})<-[f:FROM]-(l:Experience|Principle|Notes)
RETURN l.id AS lesson,
       CASE WHEN l.zone IS NOT NULL THEN l.zone + ' experience'
            WHEN l.kind IS NOT NULL THEN l.kind + ' principle' ELSE 'notes' END AS what,
       coalesce(l.lesson, l.text) AS text, f.words AS own_words, l.live AS live, l.score AS score, l.uses AS uses
ORDER BY own_words DESC, what, lesson
