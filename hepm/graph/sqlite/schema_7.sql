-- Version 7: which token recorded a run at a server, and no word of a distrusted run on whether a tool fails. Which runs
-- are successes by their reward is read on opening (`hepm.graph.changes.read_rewards`).
ALTER TABLE trajectory ADD COLUMN token TEXT NOT NULL DEFAULT '';
CREATE INDEX trajectory_token ON trajectory (namespace, token) WHERE token <> '';
DELETE FROM tool_run WHERE trajectory IN (
    SELECT seq FROM trajectory
    WHERE success IS NULL AND instr(substr(record, 1, instr(record, '"turns":[')), '"hepm:distrusted":') > 0);
