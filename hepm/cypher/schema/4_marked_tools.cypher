// Version 4: the few tools that are retired or have other names, which each write asks for.
CREATE INDEX tool_retired IF NOT EXISTS FOR (t:Tool) ON (t.retired);
CREATE INDEX tool_aliases IF NOT EXISTS FOR (t:Tool) ON (t.aliases);
