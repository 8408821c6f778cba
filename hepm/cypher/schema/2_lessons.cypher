// Version 2: what runs taught, where it was shown, and what was asked and paid for.
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
