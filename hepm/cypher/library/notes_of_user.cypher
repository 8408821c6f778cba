// What does a user want of the agent, and how did these notes change?
// Params:  $namespace string, $user string
// Returns: version int, text string, current boolean, written_by string, runs list of strings, live boolean
MATCH (n:Notes {namespace: $namespace, user: $user})
RETURN n.version AS version, n.text AS text, EXISTS { MATCH (:User)-[:PREFERS]->(n) } AS current,
       n.written_by AS written_by, n.runs AS runs, n.live AS live
ORDER BY version DESC
