// Version 8: the level of chance that the guard drew for a session, and how the sessions of each level ended. Runs of
// other sessions have no level, and those without an outcome are not in the index.
CREATE INDEX trajectory_level IF NOT EXISTS FOR (t:Trajectory) ON (t.space, t.level, t.seq, t.success);
