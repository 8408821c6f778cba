// Merge states into their moves: new ones are stored as they come, tied to the tools that were called before and next. Of
// two wordings the later one stays, ties by run and step, so that order cannot show; the vector of equal ones is not
// written again. Tells of each move whether another wording of a state stays, and whether states got a text that had none.
// Params:  $space string, $namespace string, $rows list of maps {uid, id, move, sources, targets, success, key, count, seen, trajectory, step, summary, vector, embedding, source_uids, target_uids}
// Returns: move string, changed boolean, grown boolean
// Index:   state_uid, tool_uid
UNWIND $rows AS row
MERGE (s:State {uid: row.uid})
ON CREATE SET s = row {.uid, .id, .move, .sources, .targets, .success, .key, .count, .seen, .trajectory, .step,
                       .summary, .vector, .embedding, namespace: $namespace, space: $space, kept: true}
WITH row, s, s.id = row.id AS new
WITH row, s, new, NOT new AND NOT s.kept AS gone,
     NOT new AND (row.seen > s.seen
       OR (row.seen = s.seen AND (row.trajectory > s.trajectory
                                  OR (row.trajectory = s.trajectory AND row.step > s.step)))) AS worded
WITH row, s, new, gone, worded, worded AND (gone OR s.summary <> row.summary OR s.vector IS NULL) AS changed
FOREACH (_ IN CASE WHEN new THEN [] ELSE [1] END | SET s.count = s.count + row.count)
FOREACH (_ IN CASE WHEN worded THEN [1] ELSE [] END |
    SET s.seen = row.seen, s.trajectory = row.trajectory, s.step = row.step)
FOREACH (_ IN CASE WHEN changed THEN [1] ELSE [] END |
    SET s.kept = true, s.summary = row.summary, s.embedding = row.embedding, s.vector = row.vector)
WITH row, s, changed, new OR changed AND gone AS grown
CALL (row, s, grown) {
    UNWIND CASE WHEN grown THEN row.source_uids ELSE [] END AS uid
    MATCH (t:Tool {uid: uid})
    CREATE (s)-[:AFTER]->(t)
}
CALL (row, s, grown) {
    UNWIND CASE WHEN grown THEN row.target_uids ELSE [] END AS uid
    MATCH (t:Tool {uid: uid})
    CREATE (s)-[:BEFORE]->(t)
}
RETURN row.move AS move, max(CASE WHEN changed THEN 1 ELSE 0 END) = 1 AS changed,
       max(CASE WHEN grown THEN 1 ELSE 0 END) = 1 AS grown
