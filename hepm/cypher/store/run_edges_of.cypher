// The edges that some runs took.
// Params:  $uids list of strings
// Returns: source string, target string, run string
// Index:   trajectory_uid
UNWIND $uids AS uid
MATCH (t:Trajectory {uid: uid})-[p:TOOK]->(b:Tool)
RETURN p.after AS source, b.name AS target, t.id AS run
