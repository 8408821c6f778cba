// The outgoing edges of some tools.
// Params:  $uids list of strings
// Returns: source string, target string, support int, inverse_steps int, failures int, unlabelled int
// Index:   tool_uid
UNWIND $uids AS source
MATCH (a:Tool {uid: source})-[r:NEXT]->(b:Tool)
RETURN a.name AS source, b.name AS target, r.support AS support,
       r.inverse_steps AS inverse_steps, r.failures AS failures, r.unlabelled AS unlabelled
