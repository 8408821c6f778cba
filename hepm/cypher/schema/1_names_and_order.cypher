// Version 1: what is unique, and the order in which runs, states and changes came.
// Names may be longer than an index holds: nodes are found by hashes of them (`uid`, `space`, `task_uid`).
CREATE CONSTRAINT memory_key IF NOT EXISTS FOR (m:Memory) REQUIRE m.key IS UNIQUE;
CREATE CONSTRAINT namespace_space IF NOT EXISTS FOR (n:Namespace) REQUIRE n.space IS UNIQUE;
CREATE CONSTRAINT tool_uid IF NOT EXISTS FOR (t:Tool) REQUIRE t.uid IS UNIQUE;
CREATE CONSTRAINT trajectory_uid IF NOT EXISTS FOR (t:Trajectory) REQUIRE t.uid IS UNIQUE;
CREATE CONSTRAINT state_uid IF NOT EXISTS FOR (s:State) REQUIRE s.uid IS UNIQUE;
CREATE CONSTRAINT change_revision IF NOT EXISTS FOR (c:Change) REQUIRE c.revision IS UNIQUE;
CREATE INDEX tool_space IF NOT EXISTS FOR (t:Tool) ON (t.space);
CREATE INDEX trajectory_arrival IF NOT EXISTS FOR (t:Trajectory) ON (t.space, t.seq);
CREATE INDEX trajectory_task IF NOT EXISTS FOR (t:Trajectory) ON (t.task_uid);
CREATE INDEX state_arrival IF NOT EXISTS FOR (s:State) ON (s.space, s.id);
CREATE INDEX state_move IF NOT EXISTS FOR (s:State) ON (s.move, s.kept);
CREATE INDEX took_edge IF NOT EXISTS FOR ()-[p:TOOK]-() ON (p.edge, p.seq);
