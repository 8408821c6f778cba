-- Version 10: the level of chance that the guard drew for a session, and how the sessions of each level ended.
ALTER TABLE trajectory ADD COLUMN level TEXT NOT NULL DEFAULT '';
CREATE INDEX trajectory_level ON trajectory (namespace, level, seq, success) WHERE level <> '' AND success IS NOT NULL;
