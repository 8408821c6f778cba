-- Version 16: triggers keep what follows from rows: the uses of lessons, from what was shown; the tools that a state comes
-- after, while it has a text; and no vector of a text that is gone.

CREATE TRIGGER showing_added AFTER INSERT ON showing BEGIN
    UPDATE lesson SET shown = shown + 1, uses = uses + (new.success IS NOT NULL), successes = successes + ifnull(new.success, 0),
                      changed = (SELECT CAST(value AS INTEGER) + 1 FROM meta WHERE key = 'revision')
    WHERE namespace = new.namespace AND id = new.lesson;
END;
CREATE TRIGGER showing_settled AFTER UPDATE OF success ON showing WHEN old.success IS NOT new.success BEGIN
    UPDATE lesson SET uses = uses + (new.success IS NOT NULL) - (old.success IS NOT NULL),
                      successes = successes + ifnull(new.success, 0) - ifnull(old.success, 0),
                      changed = (SELECT CAST(value AS INTEGER) + 1 FROM meta WHERE key = 'revision')
    WHERE namespace = new.namespace AND id = new.lesson;
END;
CREATE TRIGGER showing_dropped AFTER DELETE ON showing BEGIN
    UPDATE lesson SET shown = shown - 1, uses = uses - (old.success IS NOT NULL), successes = successes - ifnull(old.success, 0),
                      changed = (SELECT CAST(value AS INTEGER) + 1 FROM meta WHERE key = 'revision')
    WHERE namespace = old.namespace AND id = old.lesson;
END;

CREATE TRIGGER state_added AFTER INSERT ON state WHEN new.summary IS NOT NULL BEGIN
    INSERT OR IGNORE INTO state_after (namespace, tool, state) SELECT new.namespace, value, new.id FROM json_each(new.sources);
END;
CREATE TRIGGER state_worded AFTER UPDATE OF summary ON state WHEN old.summary IS NULL AND new.summary IS NOT NULL BEGIN
    INSERT OR IGNORE INTO state_after (namespace, tool, state) SELECT new.namespace, value, new.id FROM json_each(new.sources);
END;
CREATE TRIGGER state_reworded AFTER UPDATE OF summary ON state WHEN old.summary IS NOT new.summary BEGIN
    DELETE FROM vector WHERE state = new.id;
END;
CREATE TRIGGER state_muted AFTER UPDATE OF summary ON state WHEN new.summary IS NULL BEGIN
    DELETE FROM state_after
    WHERE namespace = new.namespace AND state = new.id AND tool IN (SELECT value FROM json_each(new.sources));
END;
CREATE TRIGGER state_dropped AFTER DELETE ON state BEGIN
    DELETE FROM vector WHERE state = old.id;
    DELETE FROM state_after
    WHERE namespace = old.namespace AND state = old.id AND tool IN (SELECT value FROM json_each(old.sources));
END;
CREATE TRIGGER trajectory_dropped AFTER DELETE ON trajectory BEGIN
    DELETE FROM run_vector WHERE trajectory = old.seq;
END;
