// Which runs did a user have, and what was learned from each?
// Params:  $namespace string, $user string, $limit int = 50
// Returns: trajectory string, environment string, task string, success boolean, day string, lessons int, notes int
// Note:    `lessons` counts experiences and principles, `notes` versions of what the user wants; `lessons_of_run` lists them.
MATCH (t:Trajectory {namespace: $namespace, user: $user})
RETURN t.id AS trajectory, t.environment AS environment, t.task AS task, t.success AS success, t.day AS day,
       COUNT { MATCH (:Experience|Principle)-[:FROM]->(t) } AS lessons, COUNT { MATCH (:Notes)-[:FROM]->(t) } AS notes
ORDER BY t.seq DESC
LIMIT $limit
