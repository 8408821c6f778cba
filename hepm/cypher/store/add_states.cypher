// Merge states into their moves: new ones are stored as they come. Of two wordings the later one stays, ties by run and
// step, so that order cannot show; the vector of equal ones is not written again. Tells of those that were there whether
// another wording stays, and whether their links have to be made again.
// Params:  $rows list of maps, each a node's properties
// Returns: uid string, changed boolean, unlinked boolean
// Index:   state_uid
UNWIND $rows AS row
MERGE (s:State {uid: row.uid})
ON CREATE SET s = row
WITH s, row WHERE s.id <> row.id
WITH s, row, NOT s.kept AS gone,
     row.seen > s.seen
       OR (row.seen = s.seen AND (row.trajectory > s.trajectory
                                  OR (row.trajectory = s.trajectory AND row.step > s.step))) AS worded
WITH s, row, gone, worded, worded AND (gone OR s.summary <> row.summary OR s.vector IS NULL) AS changed
SET s.count = s.count + row.count
FOREACH (ignored IN CASE WHEN worded THEN [1] ELSE [] END |
    SET s.seen = row.seen, s.trajectory = row.trajectory, s.step = row.step)
FOREACH (ignored IN CASE WHEN changed THEN [1] ELSE [] END |
    SET s.kept = true, s.summary = row.summary, s.embedding = row.embedding, s.vector = row.vector)
RETURN row.uid AS uid, changed, changed AND gone AS unlinked
