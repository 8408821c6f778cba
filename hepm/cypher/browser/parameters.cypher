// A value for every parameter of the library, from the namespace with the most runs.
// Params:  none
// Returns: namespace string, after string, tool string, from string, to string, trajectory string, task string,
//          one string, other string, lesson string, user string, says string, denies string, support int, runs int,
//          calls int, least int, most int, uses int, limit int
MATCH (t:Trajectory)
WITH t.namespace AS namespace, count(*) AS found ORDER BY found DESC, namespace LIMIT 1
MATCH (a:Tool {namespace: namespace})-[r:NEXT]->(b:Tool)
WHERE a <> b
WITH namespace, a, b ORDER BY b.calls DESC, b.name, r.support + r.failures + r.unlabelled DESC, a.name LIMIT 1
MATCH (t:Trajectory {namespace: namespace})
WITH namespace, a, b, t ORDER BY abs(size(t.tools) - 8), t.seq LIMIT 1
MATCH (any:Trajectory {namespace: namespace})
WITH namespace, a, b, t, any.model AS model, count(*) AS found ORDER BY found DESC, model
WITH namespace, a, b, t, collect(model) AS models
RETURN namespace, a.name AS after, b.name AS tool, '<START>' AS from, b.name AS to, t.id AS trajectory,
       t.task AS task, models[0] AS one, coalesce(models[1], models[0]) AS other,
       coalesce(head(COLLECT {
         MATCH (l:Experience|Principle {namespace: namespace})
         RETURN l.id ORDER BY COUNT { (l)-[:EVOLVED_FROM]-() } DESC, size(l.runs) DESC, l.id LIMIT 1
       }), '') AS lesson,
       coalesce(head(COLLECT { MATCH (u:User {namespace: namespace}) RETURN u.id ORDER BY u.id LIMIT 1 }), '') AS user,
       'followed_by' AS says, 'fails_after' AS denies, 2 AS support, 5 AS runs, 10 AS calls, 2 AS least, 10 AS most,
       5 AS uses, 25 AS limit
