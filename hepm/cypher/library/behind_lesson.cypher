// What lies behind a lesson: its runs, its tools, and the lessons it evolved from?
// Params:  $namespace string, $lesson string, $limit int = 100
// Returns: way path
// Picture: yes
MATCH p = (:Lesson {namespace: $namespace, id: $lesson})-[:FROM|ABOUT|EVOLVED_FROM|REVISES|MENTIONS]->()
RETURN p AS way
LIMIT $limit
