// A user's own lessons, all versions, in order of arrival. Looks at each: users are forgotten seldom.
// Params:  $space string, $user string
// Returns: id string
// Index:   lesson_changed
MATCH (l:Lesson) WHERE l.space = $space AND l.changed > 0 AND l.user = $user AND l.user <> ''
RETURN l.id AS id ORDER BY l.seq
