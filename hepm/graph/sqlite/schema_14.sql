-- Version 14: which calls of a run were refused, after which ones (JSON: [[source, target], ...]); '' for none.
ALTER TABLE trajectory ADD COLUMN refused TEXT NOT NULL DEFAULT '';
CREATE INDEX trajectory_refused ON trajectory (namespace, seq) WHERE refused <> '';
