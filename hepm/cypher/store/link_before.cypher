// Tie states to the tools that were called next.
// Params:  $rows list of maps {state, tool}
// Index:   state_uid, tool_uid
UNWIND $rows AS row
MATCH (s:State {uid: row.state})
MATCH (t:Tool {uid: row.tool})
CREATE (s)-[:BEFORE]->(t)
