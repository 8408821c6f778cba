// Forget whether the calls of distrusted runs failed: they are no evidence. In a record the tags come before the turns.
// Params:  $space string
// Index:   trajectory_arrival
MATCH (t:Trajectory)-[p:TOOK]->(:Tool)
WHERE t.space = $space AND t.seq > 0 AND p.called IS NOT NULL AND t.success IS NULL
  AND split(t.record, '"turns":[')[0] CONTAINS '"hepm:distrusted":'
SET p.called = null, p.ended = null, p.failed = null
