-- The tables of the graph model (docs/reference/graph-model.md), each by the name of its label or type. A node begins with
-- its key, a relationship with the keys of both ends; the properties follow in the order of `hepm.cypher.model`. Of a
-- relationship between several labels, :source and :target are the kinds of lessons at its ends.

-- name: Tool
SELECT json_array(namespace, name), namespace, name, description, parameters, calls, errors,
       iif(retired, 'by hand', NULL), nullif(aliases, '[]') AS "aliases [hepm_names]", nullif(changed_at, 0) FROM tool
UNION ALL
SELECT json_array(namespace, name), namespace, name, '', '{}', 0, 0, NULL, NULL, NULL  -- the start, which is never called
FROM (SELECT namespace, source AS name FROM edge UNION SELECT namespace, target FROM edge
      EXCEPT SELECT namespace, name FROM tool);

-- name: State
SELECT id, namespace, id, summary, sources AS "sources [hepm_names]", targets AS "targets [hepm_names]", success AS "success [hepm_flag]", count, seen,
       trajectory, step
FROM state WHERE summary IS NOT NULL ORDER BY id;

-- name: AFTER
SELECT s.id, json_array(s.namespace, tool.value) FROM state s, json_each(s.sources) tool WHERE s.summary IS NOT NULL;

-- name: BEFORE
SELECT s.id, json_array(s.namespace, tool.value) FROM state s, json_each(s.targets) tool WHERE s.summary IS NOT NULL;

-- name: Trajectory
SELECT seq, namespace, id, row_number() OVER (PARTITION BY namespace ORDER BY seq), environment, task, model, user, source,
       success AS "success [hepm_flag]", reward, steps, ended_at, strftime('%Y-%m-%d', ended_at, 'unixepoch'),
       (SELECT json_group_array(tool.value) FROM json_each(t.sequence) step, json_each(step.value, '$[0]') tool) AS "tools [hepm_names]",
       counted AS "counted [hepm_flag]", said, record
FROM trajectory t WHERE json_valid(record);

-- name: TOOK
WITH readable AS MATERIALIZED (SELECT seq FROM trajectory WHERE json_valid(record))
SELECT p.trajectory, json_array(p.namespace, p.target), p.source FROM passage p JOIN readable ON seq = p.trajectory;

-- name: NEXT
WITH total AS (
    SELECT namespace, source, sum(support + inverse_steps / 4294967296.0) AS weight FROM edge GROUP BY 1, 2
), ranked AS (
    SELECT s.namespace, source.value AS source, target.value AS target, s.summary, row_number() OVER (
               PARTITION BY s.namespace, source.value, target.value ORDER BY s.count DESC, s.seen DESC, s.summary) AS place
    FROM state s, json_each(s.sources) source, json_each(s.targets) target WHERE s.success = 1 AND s.summary IS NOT NULL
), held AS (
    SELECT namespace, source, target, max(place) AS states,
           json_group_array(summary) FILTER (WHERE place <= :summaries) AS summaries
    FROM (SELECT * FROM ranked ORDER BY 1, 2, 3, place) GROUP BY 1, 2, 3
)
SELECT json_array(namespace, source), json_array(namespace, target), support, failures, unlabelled, inverse_steps,
       ifnull((support + inverse_steps / 4294967296.0) / nullif(weight, 0), 0.0),
       ifnull(failures * 1.0 / nullif(support + failures, 0), 0.0), ifnull(states, 0), ifnull(summaries, '[]') AS "summaries [hepm_names]"
FROM edge JOIN total USING (namespace, source) LEFT JOIN held USING (namespace, source, target);

-- name: Experience
SELECT seq, namespace, id, seq, record ->> '$.text', user,
       (SELECT json_group_array(value ->> 0) FROM json_each(record, '$.sources')) AS "runs [hepm_names]", record -> '$.tools' AS "tools [hepm_names]",
       live AS "live [hepm_flag]",
       record ->> '$.retired', record ->> '$.made_by', shown, uses, successes, (successes + 1.0) / (uses + 2), record,
       p ->> 'situation', p ->> 'action', p ->> 'outcome', p ->> 'lesson', p ->> 'zone', p ->> 'stage', p ->> 'reward',
       p -> 'environments' AS "environments [hepm_names]", p ->> 'first_turn', p ->> 'last_turn', ifnull(p -> 'preconditions', '[]') AS "preconditions [hepm_names]",
       ifnull(p -> 'after', '[]') AS "after [hepm_names]", ifnull(p -> 'says', '[]') AS "says [hepm_names]", ifnull(p -> 'facts', '[]') AS "facts [hepm_names]", ifnull(p ->> 'only_user', ''),
       ifnull(p ->> 'condition', ''), ifnull(p ->> 'tried', 0), ifnull(p ->> 'worked', 0), p ->> 'distilled_by',
       p ->> 'generation'
FROM (SELECT *, record -> '$.properties' AS p FROM lesson WHERE kind = 'experience' AND json_valid(record));

-- name: Principle
SELECT seq, namespace, id, seq, record ->> '$.text', user,
       (SELECT json_group_array(value ->> 0) FROM json_each(record, '$.sources')) AS "runs [hepm_names]", record -> '$.tools' AS "tools [hepm_names]",
       live AS "live [hepm_flag]",
       record ->> '$.retired', record ->> '$.made_by', shown, uses, successes, (successes + 1.0) / (uses + 2), record,
       p ->> 'kind', p -> 'environments' AS "environments [hepm_names]", p ->> 'first_turn', p ->> 'last_turn', ifnull(p -> 'preconditions', '[]') AS "preconditions [hepm_names]",
       ifnull(p -> 'after', '[]') AS "after [hepm_names]", ifnull(p -> 'says', '[]') AS "says [hepm_names]", ifnull(p -> 'facts', '[]') AS "facts [hepm_names]", ifnull(p ->> 'only_user', ''),
       ifnull(p ->> 'condition', ''), ifnull(p ->> 'tried', 0), ifnull(p ->> 'worked', 0), p ->> 'distilled_by'
FROM (SELECT *, record -> '$.properties' AS p FROM lesson WHERE kind = 'principle' AND json_valid(record));

-- name: Notes
SELECT seq, namespace, id, seq, record ->> '$.text', user,
       (SELECT json_group_array(value ->> 0) FROM json_each(record, '$.sources')) AS "runs [hepm_names]", record -> '$.tools' AS "tools [hepm_names]",
       live AS "live [hepm_flag]",
       record ->> '$.retired', record ->> '$.made_by', shown, uses, successes, (successes + 1.0) / (uses + 2), record,
       record ->> '$.properties.version', record ->> '$.properties.written_by'
FROM lesson WHERE kind = 'notes' AND json_valid(record);

-- name: User
SELECT DISTINCT json_array(namespace, user), namespace, user FROM lesson WHERE kind = 'notes' AND json_valid(record);

-- name: Concept
SELECT DISTINCT json_array(namespace, name), namespace, name FROM (
    SELECT l.namespace, triple.value ->> 0 AS name
    FROM lesson l, json_each(iif(json_valid(l.record), l.record, NULL), '$.triples') triple WHERE l.kind = 'principle'
    UNION SELECT l.namespace, triple.value ->> 2
    FROM lesson l, json_each(iif(json_valid(l.record), l.record, NULL), '$.triples') triple WHERE l.kind = 'principle');

-- name: Showing
SELECT json_array(namespace, run), namespace, run, max(told) AS "told [hepm_flag]"
FROM (SELECT namespace, run, NULL AS told FROM showing UNION ALL SELECT namespace, run, success FROM told_outcome)
GROUP BY namespace, run;

-- name: FROM
-- Of a run that is named twice, the later one counts.
SELECT lesson, run, reward, words AS "words [hepm_flag]" FROM (
    SELECT l.seq AS lesson, t.seq AS run, source.value ->> 1 AS reward, source.value ->> 2 AS words, max(source.key)
    FROM lesson l, json_each(iif(json_valid(l.record), l.record, NULL), '$.sources') source
    JOIN trajectory t ON t.namespace = l.namespace AND t.id = source.value ->> 0
    WHERE l.kind = :source AND json_valid(t.record) GROUP BY l.seq, t.seq);

-- name: ABOUT
WITH alias AS (SELECT t.namespace, other.value AS name, t.name AS own FROM tool t, json_each(t.aliases) other),
     known AS (SELECT namespace, name FROM tool UNION SELECT namespace, source FROM edge)
SELECT DISTINCT l.seq, json_array(l.namespace, known.name)
FROM lesson l JOIN json_each(iif(json_valid(l.record), l.record, NULL), '$.tools') tool
LEFT JOIN alias ON alias.namespace = l.namespace AND alias.name = tool.value
JOIN known ON known.namespace = l.namespace AND known.name = ifnull(alias.own, tool.value)
WHERE l.kind = :source;

-- name: EVOLVED_FROM
SELECT lesson, parent, operator FROM (
    SELECT l.seq AS lesson, p.seq AS parent, parent.value ->> 1 AS operator, max(parent.key)
    FROM lesson l, json_each(iif(json_valid(l.record), l.record, NULL), '$.parents') parent
    JOIN lesson p ON p.namespace = l.namespace AND p.id = parent.value ->> 0 AND json_valid(p.record)
    WHERE l.kind = :source AND p.kind = :target GROUP BY l.seq, p.seq);

-- name: PREFERS
-- The notes that no others revise.
SELECT json_array(namespace, user), seq FROM lesson
WHERE kind = 'notes' AND json_valid(record) AND (namespace, id) NOT IN (
    SELECT namespace, ifnull(iif(json_valid(record), record, NULL) ->> '$.parents[0][0]', '') FROM lesson
    WHERE kind = 'notes');

-- name: REVISES
SELECT lesson, former FROM (
    SELECT l.seq AS lesson, p.seq AS former, min(parent.key)
    FROM lesson l, json_each(iif(json_valid(l.record), l.record, NULL), '$.parents') parent
    JOIN lesson p ON p.namespace = l.namespace AND p.id = parent.value ->> 0 AND json_valid(p.record)
    WHERE l.kind = 'notes' AND p.kind = 'notes' GROUP BY l.seq);

-- name: MENTIONS
SELECT l.seq, json_array(l.namespace, triple.value ->> 0)
FROM lesson l, json_each(iif(json_valid(l.record), l.record, NULL), '$.triples') triple WHERE l.kind = 'principle'
UNION SELECT l.seq, json_array(l.namespace, triple.value ->> 2)
FROM lesson l, json_each(iif(json_valid(l.record), l.record, NULL), '$.triples') triple WHERE l.kind = 'principle';

-- name: RELATES
SELECT DISTINCT json_array(l.namespace, triple.value ->> 0), json_array(l.namespace, triple.value ->> 2),
       triple.value ->> 1, l.id
FROM lesson l, json_each(iif(json_valid(l.record), l.record, NULL), '$.triples') triple WHERE l.kind = 'principle';

-- name: SHOWED
SELECT json_array(s.namespace, s.run), l.seq, s.success AS "success [hepm_flag]"
FROM showing s JOIN lesson l ON l.namespace = s.namespace AND l.id = s.lesson
WHERE l.kind = :target AND json_valid(l.record);
