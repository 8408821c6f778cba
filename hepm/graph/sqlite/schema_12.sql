-- Version 12: sessions of an experiment, each with its arm and what is kept of it to compare the arms (JSON).
ALTER TABLE trajectory ADD COLUMN arm TEXT NOT NULL DEFAULT '';
ALTER TABLE trajectory ADD COLUMN trial TEXT NOT NULL DEFAULT '';
CREATE INDEX trajectory_arm ON trajectory (namespace, seq) WHERE arm <> '';
