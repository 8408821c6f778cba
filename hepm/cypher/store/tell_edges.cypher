// Write the most often seen summaries on edges, to be read in Browser.
// Params:  $rows list of maps {source, target}, $limit int
// Index:   tool_uid
UNWIND $rows AS row
MATCH (a:Tool {uid: row.source})-[r:NEXT]->(b:Tool {uid: row.target})
OPTIONAL MATCH (a)<-[:AFTER]-(s:State)-[:BEFORE]->(b) WHERE s.success
WITH r, s ORDER BY s.count DESC, s.seen DESC, s.summary
WITH r, collect(s.summary) AS summaries
SET r.states = size(summaries), r.summaries = summaries[..$limit], r.told_at = r.support
