// Version 9: what is unique, and the order in which runs, states, changes and lessons came.
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
CREATE CONSTRAINT lesson_uid IF NOT EXISTS FOR (l:Lesson) REQUIRE l.uid IS UNIQUE;
CREATE CONSTRAINT user_uid IF NOT EXISTS FOR (u:User) REQUIRE u.uid IS UNIQUE;
CREATE CONSTRAINT concept_uid IF NOT EXISTS FOR (c:Concept) REQUIRE c.uid IS UNIQUE;
CREATE CONSTRAINT showing_uid IF NOT EXISTS FOR (s:Showing) REQUIRE s.uid IS UNIQUE;
CREATE CONSTRAINT answer_uid IF NOT EXISTS FOR (a:Answer) REQUIRE a.uid IS UNIQUE;
CREATE INDEX lesson_changed IF NOT EXISTS FOR (l:Lesson) ON (l.space, l.changed);
CREATE INDEX showing_space IF NOT EXISTS FOR (s:Showing) ON (s.space);
CREATE INDEX answer_step IF NOT EXISTS FOR (a:Answer) ON (a.space, a.step);
CREATE INDEX answer_user IF NOT EXISTS FOR (a:Answer) ON (a.user_uid);
CREATE INDEX answer_run IF NOT EXISTS FOR (a:Answer) ON (a.run_uid);
CREATE INDEX took_outcome IF NOT EXISTS FOR ()-[p:TOOK]-() ON (p.called, p.ended, p.seq);
CREATE INDEX tool_retired IF NOT EXISTS FOR (t:Tool) ON (t.retired);
CREATE INDEX tool_aliases IF NOT EXISTS FOR (t:Tool) ON (t.aliases);
CREATE INDEX trajectory_level IF NOT EXISTS FOR (t:Trajectory) ON (t.space, t.level, t.seq, t.success);
