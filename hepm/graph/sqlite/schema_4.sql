-- Version 4: what became of a tool: its other names, whether it is retired, its former description, whether it fails.
ALTER TABLE tool ADD COLUMN described_at REAL NOT NULL DEFAULT 0;  -- end of the run with this description, Unix seconds
ALTER TABLE tool ADD COLUMN changed_at REAL NOT NULL DEFAULT 0;    -- when it replaced the former one; 0: there was none
ALTER TABLE tool ADD COLUMN former_description TEXT NOT NULL DEFAULT '';
ALTER TABLE tool ADD COLUMN former_parameters TEXT NOT NULL DEFAULT '{}';
ALTER TABLE tool ADD COLUMN retired INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tool ADD COLUMN aliases TEXT NOT NULL DEFAULT '[]';    -- JSON list
CREATE INDEX tool_marked ON tool (namespace) WHERE retired <> 0 OR aliases <> '[]';

-- Whether the calls of a run to a tool failed, all of those of which it is recorded, in the order in which runs ended.
CREATE TABLE tool_run (
    namespace TEXT NOT NULL,
    tool TEXT NOT NULL,
    ended REAL NOT NULL,       -- Unix seconds; 0 if unknown
    trajectory INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    PRIMARY KEY (namespace, tool, ended, trajectory)
) WITHOUT ROWID;
CREATE INDEX tool_run_trajectory ON tool_run (trajectory);

INSERT INTO tool_run (namespace, tool, ended, trajectory, failed)
SELECT t.namespace, call.value ->> 'name', coalesce(t.ended_at, 0), t.seq, min(call.value ->> 'error')
FROM trajectory t, json_each(CASE WHEN json_valid(t.record) THEN t.record ELSE '{}' END, '$.turns') turn,
     json_each(turn.value, '$.calls') call
WHERE t.counted = 1 AND turn.value ->> 'role' <> 'user' AND call.value ->> 'error' IS NOT NULL
  AND call.value ->> 'name' <> 'summarize_the_task'
GROUP BY t.seq, call.value ->> 'name';
