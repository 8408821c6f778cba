-- Version 5: runs by outcome and states with text are counted from an index, not from their rows.
CREATE INDEX trajectory_outcome ON trajectory (namespace, success);
CREATE INDEX state_kept ON state (namespace) WHERE summary IS NOT NULL;
DROP INDEX state_arrival;
