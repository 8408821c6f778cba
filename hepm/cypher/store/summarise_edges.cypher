// Write the most often seen summaries on the outgoing edges of tools, to be read in Browser: on those whose support has
// doubled since.
// Params:  $rows list of maps {tool_uid, limit}
// Index:   tool_uid
UNWIND $rows AS row
MATCH (a:Tool {uid: row.tool_uid})-[r:NEXT]->(b:Tool) WHERE r.support > 0 AND r.support >= 2 * r.told_at
OPTIONAL MATCH (a)<-[:AFTER]-(s:State)-[:BEFORE]->(b) WHERE s.success
WITH row, r, s ORDER BY s.count DESC, s.seen DESC, s.summary
WITH row, r, collect(s.summary) AS summaries
SET r.states = size(summaries), r.summaries = summaries[..row.limit], r.told_at = r.support
