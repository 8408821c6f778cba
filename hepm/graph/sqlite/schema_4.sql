-- Version 4: what became of a tool: its other names, whether it is retired, and its former description.
ALTER TABLE tool ADD COLUMN described_at REAL NOT NULL DEFAULT 0;  -- end of the run with this description, Unix seconds
ALTER TABLE tool ADD COLUMN changed_at REAL NOT NULL DEFAULT 0;    -- when it replaced the former one; 0: there was none
ALTER TABLE tool ADD COLUMN former_description TEXT NOT NULL DEFAULT '';
ALTER TABLE tool ADD COLUMN former_parameters TEXT NOT NULL DEFAULT '{}';
ALTER TABLE tool ADD COLUMN retired INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tool ADD COLUMN aliases TEXT NOT NULL DEFAULT '[]';    -- JSON list
CREATE INDEX tool_marked ON tool (namespace) WHERE retired <> 0 OR aliases <> '[]';
