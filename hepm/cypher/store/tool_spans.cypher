// Of some tools the row numbers of the first and the last run that called each, and how many runs did.
// Params:  $rows list of maps {tool, tool_uid}
// Returns: tool string, first int, last int, runs int
// Index:   tool_uid
UNWIND $rows AS row
MATCH (:Tool {uid: row.tool_uid})<-[p:TOOK]-(t:Trajectory)
RETURN row.tool AS tool, min(t.seq) AS first, max(t.seq) AS last, count(DISTINCT t.seq) AS runs
