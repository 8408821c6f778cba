-- Version 6: the states of moves with more than the bound, by time and those with text apart, so that the oldest is found
-- however many there are. Few moves have so many: the others cost no place in the index.
ALTER TABLE state ADD COLUMN crowded INTEGER NOT NULL DEFAULT 0;  -- 1: its move has had more states than the bound
UPDATE state SET crowded = 1
WHERE (namespace, sources, targets, success) IN (
    SELECT namespace, sources, targets, success FROM state GROUP BY 1, 2, 3, 4
    HAVING count(*) > (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'states_per_move'));
CREATE INDEX state_crowded ON state (namespace, sources, targets, success, summary IS NULL, seen, key) WHERE crowded = 1;
