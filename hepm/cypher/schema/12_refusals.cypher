// Version 12: which calls of a run were refused. Runs in which none was have no such property, and are not in the index.
CREATE INDEX trajectory_refused IF NOT EXISTS FOR (t:Trajectory) ON (t.space, t.refusals, t.seq);
