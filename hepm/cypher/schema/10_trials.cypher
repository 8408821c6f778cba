// Version 10: sessions of an experiment, each with its arm. Runs of other sessions have no arm, and are not in the index.
CREATE INDEX trajectory_arm IF NOT EXISTS FOR (t:Trajectory) ON (t.space, t.arm, t.seq);
