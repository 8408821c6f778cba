// Which lessons hurt: of runs that were shown them, fewer succeeded than of all?
// Params:  $namespace string, $uses int = 5, $limit int = 20
// Returns: lesson string, what string, text string, uses int, successes int, score float, base_share float, lift float
// Note:    Lift is the score minus the share of successes among all stored runs. With few uses it means little, and lessons are shown where they fit, in hard tasks and easy ones: compare with a run without them before you believe it.
MATCH (t:Trajectory {namespace: $namespace})
WITH sum(CASE WHEN t.success THEN 1 ELSE 0 END) AS won, sum(CASE WHEN t.success IS NULL THEN 0 ELSE 1 END) AS ended
WHERE ended > 0
MATCH (l:Experience|Principle|Notes {namespace: $namespace})
WHERE l.live AND l.uses >= $uses AND l.uses > 0
WITH l, 1.0 * won / ended AS base_share
WHERE l.score < base_share
RETURN l.id AS lesson,
       CASE WHEN l.zone IS NOT NULL THEN l.zone + ' experience'
            WHEN l.kind IS NOT NULL THEN l.kind + ' principle' ELSE 'notes' END AS what,
       coalesce(l.lesson, l.text) AS text, l.uses AS uses, l.successes AS successes, l.score AS score, base_share,
       l.score - base_share AS lift
ORDER BY lift, uses DESC, lesson
LIMIT $limit
