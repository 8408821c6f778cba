// What lies behind a lesson: its runs, its tools, and the lessons it evolved from?
// Params:  $namespace string, $lesson string, $limit int = 100
// Returns: way path
// Picture: yes
MATCH p = (:Experience|Principle|Notes {namespace: $namespace, id: $lesson})-[:FROM|ABOUT|EVOLVED_FROM|REVISES|MENTIONS]->
          (what:Trajectory|Tool|Experience|Principle|Notes|Concept)
RETURN p AS way
ORDER BY coalesce(what.id, what.name)
LIMIT $limit
