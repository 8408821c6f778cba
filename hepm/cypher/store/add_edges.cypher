// Add to the counts of edges. Tells which edges need their summaries read again: new ones, and those whose
// support has doubled since.
// Params:  $rows list of maps {source, target, support, inverse_steps, failures, unlabelled}
// Returns: source string, target string
// Index:   tool_uid
UNWIND $rows AS row
MATCH (a:Tool {uid: row.source})
MATCH (b:Tool {uid: row.target})
MERGE (a)-[r:NEXT]->(b)
ON CREATE SET r.support = 0, r.inverse_steps = 0, r.failures = 0, r.unlabelled = 0, r.weight = 0.0,
              r.failure_share = 0.0, r.states = 0, r.summaries = [], r.told_at = 0
SET r.support = r.support + row.support,
    r.inverse_steps = r.inverse_steps + row.inverse_steps,
    r.failures = r.failures + row.failures,
    r.unlabelled = r.unlabelled + row.unlabelled
WITH row, r WHERE r.support >= 2 * r.told_at AND row.support <> 0
RETURN row.source AS source, row.target AS target
