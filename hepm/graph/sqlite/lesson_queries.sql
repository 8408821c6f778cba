-- Every statement of the embedded store on lessons, by name. Values arrive as named parameters only.

-- name: count_removal
-- Mirrors that see this number grow read all lessons again.
INSERT INTO meta (key, value) VALUES ('lessons_removed', '1')
ON CONFLICT (key) DO UPDATE SET value = CAST(value AS INTEGER) + 1;

-- name: lessons
-- A vector of another size is none.
SELECT seq, id, record, shown, uses, successes,
       CASE WHEN length(embedding) = 2 * (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'dimensions') THEN embedding END
FROM lesson WHERE namespace = :namespace AND changed > :newer_than ORDER BY seq;

-- name: lessons_without_vector
-- A vector of another size is none.
SELECT id, record ->> '$.text' FROM lesson
WHERE namespace = :namespace AND CASE WHEN json_valid(record) THEN json_type(record, '$.text') = 'text' END
  AND length(coalesce(embedding, '')) <> 2 * (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'dimensions')
ORDER BY seq;

-- name: lessons_shown
-- How many lessons searches find, and how many of them were ever shown; notes, which are one user's, do not count.
SELECT count(*), coalesce(sum(shown > 0), 0) FROM lesson
WHERE namespace = :namespace AND live = 1 AND kind IN ('experience', 'principle');

-- name: find_lessons
SELECT seq, id, record, shown, uses, successes,
       CASE WHEN length(embedding) = 2 * (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'dimensions') THEN embedding END
FROM lesson WHERE namespace = :namespace AND id IN (SELECT value FROM json_each(:lessons)) ORDER BY seq;

-- name: held_lessons
SELECT id, record, user, live AS "live [hepm_flag]",
       (SELECT json_group_array(run) FROM lesson_source s WHERE s.namespace = l.namespace AND s.lesson = l.id) AS "runs [hepm_names]",
       shown, uses, successes, embedding
FROM lesson l WHERE namespace = :namespace ORDER BY seq;

-- name: lessons_from
SELECT DISTINCT l.seq, l.id, l.record, l.shown, l.uses, l.successes, NULL FROM lesson_source s JOIN lesson l ON l.namespace = s.namespace AND l.id = s.lesson
WHERE s.namespace = :namespace AND s.run IN (SELECT value FROM json_each(:runs)) ORDER BY l.seq;

-- name: lessons_of_user
SELECT id FROM lesson WHERE namespace = :namespace AND user = :user AND user <> '' ORDER BY seq;

-- name: put_lessons
INSERT INTO lesson (namespace, id, kind, user, live, shown, uses, successes, changed, record, embedding)
VALUES (:namespace, :lesson, :kind, :user, :live, :shown, :uses, :successes, :changed, :record, :vector)
ON CONFLICT (namespace, id) DO UPDATE SET
    kind = excluded.kind,
    user = excluded.user,
    live = excluded.live,
    changed = excluded.changed,
    record = excluded.record,
    embedding = coalesce(embedding, excluded.embedding);

-- name: put_lesson_vectors
UPDATE lesson SET embedding = :vector, changed = :changed WHERE namespace = :namespace AND id = :lesson;

-- name: drop_all_lesson_vectors
UPDATE lesson SET embedding = NULL;

-- name: drop_lesson_vectors
UPDATE lesson SET embedding = NULL WHERE namespace = :namespace;

-- name: drop_lessons
DELETE FROM lesson WHERE namespace = :namespace AND id = :lesson;

-- name: add_lesson_sources
INSERT OR IGNORE INTO lesson_source (namespace, run, lesson) SELECT :namespace, value, :lesson FROM json_each(:runs);

-- name: drop_former_lesson_sources
DELETE FROM lesson_source WHERE namespace = :namespace AND lesson = :lesson AND run NOT IN (SELECT value FROM json_each(:runs));

-- name: drop_lesson_sources
DELETE FROM lesson_source WHERE namespace = :namespace AND lesson = :lesson;

-- name: drop_lesson_showings
DELETE FROM showing WHERE namespace = :namespace AND lesson = :lesson;

-- name: set_uses
-- Those that a lesson brought along from another store, and those in the runs that it was shown in.
UPDATE lesson SET (shown, uses, successes, changed) = (
    SELECT :shown + count(*), :uses + count(success), :successes + ifnull(sum(success), 0), :changed
    FROM showing s WHERE s.namespace = lesson.namespace AND s.lesson = lesson.id)
WHERE namespace = :namespace AND id = :lesson;

-- name: showings
SELECT run, lesson, success AS "success [hepm_flag]" FROM showing WHERE namespace = :namespace ORDER BY run, lesson;

-- name: showings_in
SELECT run, lesson, success AS "success [hepm_flag]" FROM showing
WHERE namespace = :namespace AND run IN (SELECT value FROM json_each(:in_runs)) ORDER BY run, lesson;

-- name: put_showings
-- The uses of lessons follow (see `schema_16.sql`).
INSERT INTO showing (namespace, run, lesson, success) VALUES (:namespace, :run, :lesson, :success)
ON CONFLICT (namespace, run, lesson) DO UPDATE SET success = excluded.success;

-- name: drop_showings
DELETE FROM showing WHERE namespace = :namespace AND run = :run;

-- name: reported_outcomes
SELECT run, success AS "success [hepm_flag]" FROM told_outcome WHERE namespace = :namespace ORDER BY run;

-- name: reported_outcomes_of
SELECT run, success AS "success [hepm_flag]" FROM told_outcome WHERE namespace = :namespace AND run IN (SELECT value FROM json_each(:in_runs));

-- name: put_reported_outcomes
INSERT OR REPLACE INTO told_outcome (namespace, run, success) VALUES (:namespace, :run, :success);

-- name: drop_reported_outcomes
DELETE FROM told_outcome WHERE namespace = :namespace AND run = :run;

-- name: find_answers
SELECT key, step, run, text, usage, user FROM answer
WHERE namespace = :namespace AND key IN (SELECT value FROM json_each(:keys)) ORDER BY key;

-- name: all_answers
SELECT key, step, run, text, usage, user FROM answer WHERE namespace = :namespace ORDER BY key;

-- name: put_answers
INSERT OR REPLACE INTO answer (namespace, key, step, run, user, text, usage)
SELECT :namespace, :key, :step, :run, :user, :text, :usage
WHERE (:run = '' OR EXISTS (SELECT 1 FROM trajectory WHERE namespace = :namespace AND id = :run))
  AND (:user = '' OR EXISTS (SELECT 1 FROM lesson WHERE namespace = :namespace AND user = :user AND user <> ''));

-- name: answered_runs
SELECT DISTINCT run FROM answer WHERE namespace = :namespace AND step = :step;

-- name: drop_answers_of
DELETE FROM answer WHERE namespace = :namespace AND user = :user AND user <> '';

-- name: drop_answers_about
DELETE FROM answer WHERE namespace = :namespace AND run = :run;
