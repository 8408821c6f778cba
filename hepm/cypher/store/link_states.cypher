// Tie states to the tools that were called before, and to those that were called next.
// Params:  $rows list of maps {uid, after: uids, before: uids}
// Index:   state_uid, tool_uid
UNWIND $rows AS row
MATCH (s:State {uid: row.uid})
CALL (s, row) {
    UNWIND row.after AS uid
    MATCH (t:Tool {uid: uid})
    CREATE (s)-[:AFTER]->(t)
}
CALL (s, row) {
    UNWIND row.before AS uid
    MATCH (t:Tool {uid: uid})
    CREATE (s)-[:BEFORE]->(t)
}
