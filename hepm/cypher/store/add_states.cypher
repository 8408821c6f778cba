// Merge states into their moves. Of two wordings the later one stays, ties by run and step, so that order cannot
// show. Tells of each whether its wording is the one that stays, and whether its links have to be made.
// Params:  $namespace string, $space string, $rows list of maps
// Returns: uid string, repeated boolean, worded boolean, unlinked boolean
// Index:   state_uid
UNWIND $rows AS row
MERGE (s:State {uid: row.uid})
ON CREATE SET s.namespace = $namespace, s.space = $space, s.id = row.id, s.move = row.move, s.key = row.key,
              s.sources = row.sources, s.targets = row.targets, s.success = row.success, s.count = 0, s.kept = false
WITH s, row, s.count > 0 AS repeated, NOT s.kept AS gone,
     s.count = 0 OR row.seen > s.seen
       OR (row.seen = s.seen AND (row.trajectory > s.trajectory
                                  OR (row.trajectory = s.trajectory AND row.step > s.step))) AS worded
SET s.count = s.count + row.count
FOREACH (ignored IN CASE WHEN worded THEN [1] ELSE [] END |
    SET s.kept = true, s.summary = row.summary, s.seen = row.seen, s.trajectory = row.trajectory, s.step = row.step,
        s.embedding = row.embedding, s.vector = row.vector)
RETURN row.uid AS uid, repeated, worded, worded AND gone AS unlinked
