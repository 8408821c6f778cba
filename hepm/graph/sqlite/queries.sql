-- Every statement of the embedded store, by name. Values arrive as named parameters only.

-- name: meta
-- What the store says of itself.
SELECT key, value FROM meta;

-- name: set_meta
INSERT INTO meta (key, value) VALUES (:key, :value) ON CONFLICT (key) DO UPDATE SET value = excluded.value;

-- name: make_secret
INSERT OR IGNORE INTO meta (key, value) VALUES ('secret', :secret);

-- name: secret
SELECT value FROM meta WHERE key = 'secret';

-- name: upgraded_from
SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'upgraded_from';

-- name: settle_upgrade
DELETE FROM meta WHERE key = 'upgraded_from';

-- name: next_revision
-- The revision that the running transaction will be known by.
UPDATE meta SET value = max(CAST(value AS INTEGER), (SELECT coalesce(max(revision), 0) FROM change)) + 1
WHERE key = 'revision' RETURNING CAST(value AS INTEGER);

-- name: add_change
INSERT INTO change (revision, namespace, sources, rewritten) VALUES (:revision, :namespace, :sources, :rewritten);

-- name: trim_changes
DELETE FROM change WHERE revision <= :revision - 10000;

-- name: changes_since
SELECT revision, namespace, sources, rewritten FROM change WHERE revision > :revision ORDER BY revision;

-- name: namespaces
-- One look into the indexes for each: DISTINCT would read them whole.
WITH RECURSIVE found (namespace) AS (
    SELECT min(namespace) FROM (SELECT min(namespace) AS namespace FROM trajectory
                                UNION ALL SELECT min(namespace) FROM tool UNION ALL SELECT min(namespace) FROM lesson)
    UNION ALL
    SELECT (SELECT min(namespace) FROM (
                SELECT min(namespace) AS namespace FROM trajectory WHERE namespace > found.namespace
                UNION ALL SELECT min(namespace) FROM tool WHERE namespace > found.namespace
                UNION ALL SELECT min(namespace) FROM lesson WHERE namespace > found.namespace))
    FROM found WHERE found.namespace IS NOT NULL
)
SELECT namespace FROM found WHERE namespace IS NOT NULL;

-- name: totals
-- Runs and states are counted from the indexes `trajectory_outcome` and `state_kept`.
SELECT successes + failures + unlabelled, successes, failures, unlabelled,
    (SELECT count(*) FROM tool WHERE namespace = :namespace),
    (SELECT count(*) FROM edge WHERE namespace = :namespace),
    (SELECT count(*) FROM state WHERE namespace = :namespace AND summary IS NOT NULL),
    (SELECT count(*) FROM lesson WHERE namespace = :namespace AND live = 1 AND kind = 'experience'),
    (SELECT count(*) FROM lesson WHERE namespace = :namespace AND live = 1 AND kind = 'principle'),
    (SELECT count(*) FROM lesson WHERE namespace = :namespace AND live = 1 AND kind = 'notes')
FROM (SELECT (SELECT count(*) FROM trajectory WHERE namespace = :namespace AND success = 1) AS successes,
             (SELECT count(*) FROM trajectory WHERE namespace = :namespace AND success = 0) AS failures,
             (SELECT count(*) FROM trajectory WHERE namespace = :namespace AND success IS NULL) AS unlabelled);

-- name: find_runs
-- The last column is whether a run has the tag OUTCOME_BY. In a record the tags come before the turns.
SELECT id, digest, success AS "success [hepm_flag]",
       instr(substr(record, 1, instr(record, '"turns":[')), '"hepm:outcome-by":') > 0 AS "derived [hepm_flag]"
FROM trajectory
WHERE namespace = :namespace AND id IN (SELECT value FROM json_each(:runs));

-- name: outcomes_of
SELECT id, success AS "success [hepm_flag]" FROM trajectory WHERE namespace = :namespace AND id IN (SELECT value FROM json_each(:runs));

-- name: last_run
SELECT ifnull(max(seq), 0) FROM trajectory;

-- name: add_runs
INSERT INTO trajectory (seq, namespace, id, digest, environment, task, model, user, reward, success, steps, ended_at, source,
                        counted, sequence, said, token, level, arm, trial, refused, record)
VALUES (:seq, :namespace, :id, :digest, :environment, :task, :model, :user, :reward, :success, :steps, :ended_at, :source,
        :counted, :sequence, :said, :token, :level, :arm, :trial, :refused, :record);

-- name: restate_runs
-- What the record says, said again.
UPDATE trajectory SET id = :id, digest = :digest, counted = :counted, environment = :environment, task = :task, model = :model, user = :user, reward = :reward,
                      success = :success, steps = :steps, ended_at = :ended_at, source = :source, sequence = :sequence,
                      said = :said, token = :token, level = :level, arm = :arm, trial = :trial, refused = :refused
WHERE seq = :seq;

-- name: set_outcome_record
-- A record whose reward or tags changed, and nothing that is counted.
UPDATE trajectory SET record = :record, reward = :reward WHERE namespace = :namespace AND id = :run;

-- name: set_counted
UPDATE trajectory SET counted = :counted WHERE namespace = :namespace AND id = :run;

-- name: shortest_and_counted
-- Of a task's successful runs the one with fewest steps, ties by id, and the one that counts.
SELECT seq, id, environment, task, success AS "success [hepm_flag]", steps, counted AS "counted [hepm_flag]", record FROM trajectory
WHERE namespace = :namespace AND environment = :environment AND task = :task AND success = 1
  AND (counted = 1 OR seq = (
      SELECT seq FROM trajectory
      WHERE namespace = :namespace AND environment = :environment AND task = :task AND success = 1
      ORDER BY steps, id LIMIT 1));

-- name: select_runs
-- A part that is not given matches everything. Users, tokens and tasks are found in their indexes.
SELECT seq, id, environment, task, success AS "success [hepm_flag]", steps, counted AS "counted [hepm_flag]", record FROM trajectory
WHERE seq IN (
    SELECT seq FROM trajectory INDEXED BY trajectory_user
    WHERE :user <> '' AND namespace = :namespace AND user = :user AND user <> ''
    UNION ALL
    SELECT seq FROM trajectory INDEXED BY trajectory_token
    WHERE coalesce(:user, '') = '' AND :token <> '' AND namespace = :namespace AND token = :token AND token <> ''
    UNION ALL
    SELECT seq FROM trajectory INDEXED BY trajectory_task
    WHERE coalesce(:user, :token, '') = '' AND :environment IS NOT NULL AND namespace = :namespace
      AND environment = :environment AND (:task IS NULL OR task = :task)
    UNION ALL
    SELECT seq FROM trajectory INDEXED BY trajectory_task
    WHERE coalesce(:user, :token, '') = '' AND :environment IS NULL AND namespace = :namespace
      AND (:task IS NULL OR task = :task)
)
  AND (:trajectory IS NULL OR id = :trajectory)
  AND (:environment IS NULL OR environment = :environment)
  AND (:task IS NULL OR task = :task)
  AND (:user IS NULL OR user = :user)
  AND (:token IS NULL OR token = :token)
ORDER BY id;

-- name: rewarded_runs
-- Runs that another threshold may label otherwise.
SELECT seq, id, environment, task, success AS "success [hepm_flag]", steps, counted AS "counted [hepm_flag]", record FROM trajectory
WHERE namespace = :namespace
  AND reward IS NOT NULL AND (success IS NULL OR reward >= :low AND reward < :high);

-- name: stored_runs
SELECT seq, id, environment, task, success AS "success [hepm_flag]", steps, counted AS "counted [hepm_flag]", record FROM trajectory
WHERE namespace = :namespace AND id IN (SELECT value FROM json_each(:runs));

-- name: records
SELECT id, record, counted AS "counted [hepm_flag]" FROM trajectory WHERE namespace = :namespace ORDER BY seq;

-- name: held_runs
SELECT t.id, t.digest, t.environment, t.task, t.model, t.user, t.reward, t.success AS "success [hepm_flag]", t.steps, t.ended_at, t.source,
       t.said, t.token, t.level, t.arm, t.trial, t.refused, t.sequence, t.record,
       t.counted AS "counted [hepm_flag]", v.embedding
FROM trajectory t LEFT JOIN run_vector v ON v.trajectory = t.seq WHERE t.namespace = :namespace ORDER BY t.seq;

-- name: outcomes_by_level
-- Of the latest sessions of each level that have an outcome: how many succeeded, and how many there are.
SELECT j.value, count(*) FILTER (WHERE t.success = 1), count(t.success)
FROM json_each(:levels) j LEFT JOIN trajectory t ON t.seq IN (
    SELECT seq FROM trajectory INDEXED BY trajectory_level
    WHERE namespace = :namespace AND level = j.value AND level <> '' AND success IS NOT NULL
    ORDER BY seq DESC LIMIT :most)
GROUP BY j.value;

-- name: trial_sessions
-- Sessions of experiments, in order of arrival.
SELECT seq, id, arm, steps, ended_at, environment, task, success AS "success [hepm_flag]", level, trial
FROM trajectory INDEXED BY trajectory_arm
WHERE namespace = :namespace AND arm <> '' ORDER BY seq;

-- name: refusals
-- The calls that were refused in the latest runs with any.
SELECT refused FROM trajectory INDEXED BY trajectory_refused
WHERE namespace = :namespace AND refused <> '' ORDER BY seq DESC LIMIT :most;

-- name: runs_by_task
SELECT environment, task, id FROM trajectory
WHERE namespace = :namespace AND (success IS NOT NULL OR reward IS NOT NULL)
ORDER BY environment, task, id;

-- name: latest_records
-- Runs stored before a row, the latest first; maybe only those of unknown outcome.
SELECT seq, id, record FROM trajectory
WHERE namespace = :namespace AND seq < :before
  AND (NOT :unlabelled OR success IS NULL AND reward IS NULL)
ORDER BY seq DESC LIMIT :limit;

-- name: records_of
SELECT id, record FROM trajectory WHERE namespace = :namespace AND id IN (SELECT value FROM json_each(:runs));

-- name: about_runs
SELECT seq, id, environment, task, model, user, success AS "success [hepm_flag]", steps, ended_at, substr(said, 1, 600) FROM trajectory
WHERE namespace = :namespace AND id IN (SELECT value FROM json_each(:runs));

-- name: runs_found
-- Runs stored before a row, the latest first. A part that is not given matches everything.
SELECT seq, id, environment, task, model, user, success AS "success [hepm_flag]", steps, ended_at, substr(said, 1, 600) FROM trajectory t
WHERE namespace = :namespace AND seq < :before
  AND (:words IS NULL OR instr(lower(substr(said, 1, 600)), :words) OR instr(lower(id), :words)
       OR lower(task) = :words OR instr(lower(environment), :words))
  AND (:outcome IS NULL OR success IS (CASE :outcome WHEN 'succeeded' THEN 1 WHEN 'failed' THEN 0 END))
  AND (:user IS NULL OR user = :user)
  AND (:model IS NULL OR model = :model)
  AND (:since IS NULL OR ended_at >= :since) AND (:until IS NULL OR ended_at < :until)
  AND (:tool IS NULL OR EXISTS (
      SELECT 1 FROM passage p WHERE p.trajectory = t.seq AND p.namespace = t.namespace AND p.target = :tool))
ORDER BY seq DESC LIMIT :limit;

-- name: outcomes_by_day
-- Of each day since 1970 on which labelled runs ended: how many succeeded, and how many failed.
SELECT CAST(floor(ended_at / 86400) AS INTEGER) AS day, sum(success = 1), sum(success = 0) FROM trajectory
WHERE namespace = :namespace AND ended_at IS NOT NULL AND success IS NOT NULL AND counted = 1
GROUP BY day ORDER BY day;

-- name: models
-- Of the latest runs.
SELECT DISTINCT model FROM (
    SELECT model FROM trajectory WHERE namespace = :namespace ORDER BY seq DESC LIMIT :most
) WHERE model <> '' ORDER BY model;

-- name: tokens_of
SELECT id, token FROM trajectory
WHERE namespace = :namespace AND id IN (SELECT value FROM json_each(:runs)) AND token <> '';

-- name: runs_holding
-- Labelled runs on an edge with one of the texts in their sequence, or all of them if no text is given.
SELECT t.id, coalesce(t.ended_at, 0.0), t.success AS "success [hepm_flag]", t.sequence
FROM passage p CROSS JOIN trajectory t ON t.seq = p.trajectory
WHERE p.namespace = :namespace AND p.source = :source AND p.target = :target AND t.success IS NOT NULL
  AND (:texts = '[]' OR EXISTS (SELECT 1 FROM json_each(:texts) j WHERE instr(t.sequence, j.value) > 0));

-- name: run_edges
-- By the arrival of the runs.
SELECT p.source, p.target, t.id FROM trajectory t CROSS JOIN passage p ON p.trajectory = t.seq AND p.namespace = t.namespace
WHERE t.namespace = :namespace ORDER BY t.seq;

-- name: run_edges_of
SELECT p.source, p.target, t.id FROM trajectory t CROSS JOIN passage p ON p.trajectory = t.seq AND p.namespace = t.namespace
WHERE t.namespace = :namespace AND t.id IN (SELECT value FROM json_each(:runs));

-- name: runs_after
SELECT t.seq, t.id, t.success AS "success [hepm_flag]", t.sequence, t.environment, t.task, t.user, substr(t.said, 1, 600), v.embedding
FROM trajectory t LEFT JOIN run_vector v ON v.trajectory = t.seq
WHERE t.namespace = :namespace AND t.seq > :seq AND t.counted = 1 AND t.success IS NOT NULL ORDER BY t.seq;

-- name: latest_runs
SELECT t.seq, t.id, t.success AS "success [hepm_flag]", t.sequence, t.environment, t.task, t.user, substr(t.said, 1, 600), v.embedding
FROM trajectory t LEFT JOIN run_vector v ON v.trajectory = t.seq
WHERE t.namespace = :namespace AND t.seq < :before AND t.counted = 1 AND t.success IS NOT NULL
ORDER BY t.seq DESC LIMIT :most;

-- name: runs_from_points
-- The first run from each of some row numbers on.
SELECT t.seq, t.id, t.success AS "success [hepm_flag]", t.sequence, t.environment, t.task, t.user, substr(t.said, 1, 600), v.embedding
FROM (SELECT DISTINCT (
          SELECT seq FROM trajectory
          WHERE namespace = :namespace AND seq >= j.value AND counted = 1 AND success IS NOT NULL ORDER BY seq LIMIT 1
      ) AS seq FROM json_each(:points) j) p
CROSS JOIN trajectory t ON t.seq = p.seq
LEFT JOIN run_vector v ON v.trajectory = t.seq
WHERE t.seq < :before ORDER BY t.seq;

-- name: runs_at
-- Without their vectors.
SELECT t.seq, t.id, t.success AS "success [hepm_flag]", t.sequence, t.environment, t.task, t.user, substr(t.said, 1, 600), NULL
FROM json_each(:seqs) j CROSS JOIN trajectory t ON t.seq = j.value
WHERE t.namespace = :namespace AND t.counted = 1 AND t.success IS NOT NULL ORDER BY t.seq;

-- name: latest_on_edges
-- Of each edge the row numbers of the latest runs that took it.
SELECT j.value ->> 0, j.value ->> 1, (SELECT json_group_array(trajectory) FROM (
    SELECT trajectory FROM passage
    WHERE namespace = :namespace AND source = j.value ->> 0 AND target = j.value ->> 1
    ORDER BY trajectory DESC LIMIT :most)) AS "seqs [hepm_names]"
FROM json_each(:edges) j;

-- name: runs_without_vector
SELECT t.seq, t.said FROM trajectory t
WHERE t.namespace = :namespace AND t.said <> '' AND NOT EXISTS (SELECT 1 FROM run_vector v WHERE v.trajectory = t.seq)
ORDER BY t.seq;

-- name: add_run_vector
INSERT OR REPLACE INTO run_vector (trajectory, embedding) SELECT :seq, :said_vector WHERE :said_vector IS NOT NULL;

-- name: put_run_vectors
INSERT OR REPLACE INTO run_vector (trajectory, embedding)
SELECT seq, :said_vector FROM trajectory WHERE seq = :of AND namespace = :namespace;

-- name: drop_runs
DELETE FROM trajectory WHERE namespace = :namespace AND id = :run;

-- name: add_tools
-- Of two descriptions the newer stays, ties by length and text. Expressions see the row as it was before.
INSERT INTO tool (namespace, name, description, parameters, calls, errors, described_at)
VALUES (:namespace, :tool, :description, :parameters, :calls, :errors, :described_at)
ON CONFLICT (namespace, name) DO UPDATE SET
    calls = calls + excluded.calls,
    errors = errors + excluded.errors,
    description = CASE WHEN (excluded.description <> '', excluded.described_at, length(excluded.description), excluded.description)
                          > (description <> '', described_at, length(description), description)
                       THEN excluded.description ELSE description END,
    parameters = CASE WHEN (excluded.parameters <> '{}', excluded.described_at, length(excluded.parameters), excluded.parameters)
                         > (parameters <> '{}', described_at, length(parameters), parameters)
                      THEN excluded.parameters ELSE parameters END,
    described_at = max(described_at, excluded.described_at),
    (changed_at, former_description, former_parameters) = (
        SELECT CASE WHEN changed THEN excluded.described_at ELSE changed_at END,
               CASE WHEN changed THEN description ELSE former_description END,
               CASE WHEN changed THEN parameters ELSE former_parameters END
        FROM (SELECT excluded.described_at > described_at
                 AND (excluded.description NOT IN ('', description) AND description <> ''
                      OR excluded.parameters NOT IN ('{}', parameters) AND parameters <> '{}') AS changed));

-- name: copy_tools
INSERT INTO tool (namespace, name, description, parameters, calls, errors, described_at, changed_at, former_description,
                  former_parameters)
VALUES (:namespace, :tool, :description, :parameters, 0, 0, :described_at, :changed_at, :former_description,
        :former_parameters)
ON CONFLICT (namespace, name) DO UPDATE SET
    description = excluded.description,
    parameters = excluded.parameters,
    described_at = excluded.described_at,
    changed_at = excluded.changed_at,
    former_description = excluded.former_description,
    former_parameters = excluded.former_parameters;

-- name: mark_tools
UPDATE tool SET retired = :retired, aliases = :aliases WHERE namespace = :namespace AND name = :tool;

-- name: marked_tools
-- Few of many tools: by itself SQLite reads them all, to have them sorted.
SELECT name, retired AS "retired [hepm_flag]", aliases AS "aliases [hepm_names]" FROM tool INDEXED BY tool_marked WHERE namespace = :namespace AND (retired <> 0 OR aliases <> '[]') ORDER BY name;

-- name: drop_tool
DELETE FROM tool WHERE namespace = :namespace AND name = :tool AND calls = 0;

-- name: add_tool_runs
INSERT INTO tool_run (namespace, tool, ended, trajectory, failed)
SELECT :namespace, :tool, :ended, seq, :failed FROM trajectory
WHERE :failed IS NOT NULL AND namespace = :namespace AND id = :run;

-- name: drop_tool_runs
DELETE FROM tool_run WHERE trajectory = (SELECT seq FROM trajectory WHERE namespace = :namespace AND id = :run);

-- name: latest_outcomes
-- Of each tool, newest first, as one text of 1 (failed) and 0.
SELECT j.value, (SELECT coalesce(group_concat(failed, ''), '') FROM (
    SELECT failed FROM tool_run WHERE namespace = :namespace AND tool = j.value
    ORDER BY ended DESC, trajectory DESC LIMIT :most))
FROM json_each(:tools) j;

-- name: outcomes_of_tool
-- Whether the calls of the latest runs to a tool failed, newest first, and where each run is from.
SELECT r.failed AS "failed [hepm_flag]", t.success IS NOT NULL AS "labelled [hepm_flag]", t.token, t.model, r.ended
FROM (SELECT failed, ended, trajectory FROM tool_run WHERE namespace = :namespace AND tool = :tool
      ORDER BY ended DESC, trajectory DESC LIMIT :most) r
CROSS JOIN trajectory t ON t.seq = r.trajectory ORDER BY r.ended DESC, r.trajectory DESC;

-- name: outcomes
-- By the arrival of the runs.
SELECT r.tool, t.id, r.ended, r.failed AS "failed [hepm_flag]" FROM trajectory t CROSS JOIN tool_run r ON r.trajectory = t.seq AND r.namespace = t.namespace
WHERE t.namespace = :namespace ORDER BY t.seq;

-- name: runs_naming
-- Runs with a text in their record.
SELECT seq, id, environment, task, success AS "success [hepm_flag]", steps, counted AS "counted [hepm_flag]", record FROM trajectory
WHERE namespace = :namespace AND instr(record, :text) > 0;

-- name: reset_tools
UPDATE tool SET calls = 0, errors = 0 WHERE namespace = :namespace;

-- name: drop_empty_tools
DELETE FROM tool WHERE namespace = :namespace AND name = :tool AND calls = 0 AND description = '' AND parameters = '{}'
  AND retired = 0 AND aliases = '[]';

-- name: called_tools
SELECT name FROM tool WHERE namespace = :namespace AND calls > 0;

-- name: tools
SELECT name, description, parameters, calls, errors, described_at, changed_at, former_description, former_parameters,
       retired AS "retired [hepm_flag]", aliases AS "aliases [hepm_names]"
FROM tool WHERE namespace = :namespace ORDER BY name;

-- name: edges
SELECT source, target, support, inverse_steps, failures, unlabelled FROM edge
WHERE namespace = :namespace ORDER BY source, target;

-- name: edges_from
SELECT e.source, e.target, e.support, e.inverse_steps, e.failures, e.unlabelled
FROM json_each(:sources) j CROSS JOIN edge e ON e.namespace = :namespace AND e.source = j.value
ORDER BY e.source, e.target;

-- name: add_run_edges
INSERT INTO passage (namespace, source, target, trajectory)
SELECT :namespace, :after, :tool, seq FROM trajectory WHERE namespace = :namespace AND id = :run;

-- name: drop_run_edges
DELETE FROM passage WHERE trajectory = (SELECT seq FROM trajectory WHERE namespace = :namespace AND id = :run);

-- name: add_state
-- Of two wordings the later one stays, ties by run and step. Whether that is this one, with the former text. The text is
-- left out: setting it would write the index of states with text.
INSERT INTO state (namespace, sources, targets, success, key, count, seen, trajectory, step, summary)
VALUES (:namespace, :sources, :targets, :success, :key, :count, :seen, :trajectory, :step, :summary)
ON CONFLICT (namespace, sources, targets, success, key) DO UPDATE SET count = count + excluded.count,
    (seen, trajectory, step) = (
        SELECT iif(later, excluded.seen, seen), iif(later, excluded.trajectory, trajectory), iif(later, excluded.step, step)
        FROM (SELECT (excluded.seen, excluded.trajectory, excluded.step) > (seen, trajectory, step) AS later))
RETURNING id, count > :count AS repeated, (seen, trajectory, step) = (:seen, :trajectory, :step), summary,
    EXISTS (SELECT 1 FROM vector v WHERE v.state = state.id);

-- name: set_text
UPDATE state SET summary = :summary WHERE id = :state;

-- name: add_vector
INSERT OR REPLACE INTO vector (state, embedding) VALUES (:state, :vector);

-- name: put_state_vectors
INSERT OR REPLACE INTO vector (state, embedding)
SELECT id, :vector FROM state WHERE id = :of AND namespace = :namespace AND summary IS NOT NULL;

-- name: states_on_move
-- With those whose text was dropped, and at most so many: answered from the index alone.
SELECT count(*) FROM (SELECT 1 FROM state WHERE namespace = :namespace AND sources = :sources AND targets = :targets
                      AND success = :success LIMIT :most);

-- name: is_crowded
SELECT EXISTS (SELECT 1 FROM state INDEXED BY state_crowded
               WHERE namespace = :namespace AND sources = :sources AND targets = :targets AND success = :success
                 AND crowded = 1);

-- name: crowd_move
UPDATE state SET crowded = 1
WHERE namespace = :namespace AND sources = :sources AND targets = :targets AND success = :success;

-- name: crowd_state
UPDATE state SET crowded = 1 WHERE id = :state;

-- name: states_over_bound
-- The least recent of a crowded move, ties by key: a property of the states themselves, not of the order they came in.
SELECT id FROM state INDEXED BY state_crowded
WHERE namespace = :namespace AND sources = :sources AND targets = :targets AND success = :success
  AND crowded = 1 AND (summary IS NULL) = 0
ORDER BY seen, key LIMIT max(0, (
    SELECT count(*) FROM state INDEXED BY state_crowded
    WHERE namespace = :namespace AND sources = :sources AND targets = :targets AND success = :success
      AND crowded = 1 AND (summary IS NULL) = 0) - :bound);

-- name: drop_text
UPDATE state SET summary = NULL WHERE id = :state;

-- name: reduce_states
UPDATE state SET count = count - :count
WHERE namespace = :namespace AND sources = :sources AND targets = :targets AND success = :success AND key = :key
RETURNING :at, count, trajectory, summary IS NOT NULL AS "kept [hepm_flag]";

-- name: textless_states
-- Those without text among the latest of a move (see `states_over_bound`).
SELECT :at, key, count, trajectory, step FROM (
    SELECT * FROM (SELECT key, count, trajectory, step, seen, summary FROM state INDEXED BY state_crowded
                   WHERE namespace = :namespace AND sources = :sources AND targets = :targets AND success = :success
                     AND crowded = 1 AND (summary IS NULL) = 0 ORDER BY seen DESC, key DESC LIMIT :bound)
    UNION ALL
    SELECT * FROM (SELECT key, count, trajectory, step, seen, summary FROM state INDEXED BY state_crowded
                   WHERE namespace = :namespace AND sources = :sources AND targets = :targets AND success = :success
                     AND crowded = 1 AND (summary IS NULL) = 1 ORDER BY seen DESC, key DESC LIMIT :bound)
    ORDER BY seen DESC, key DESC LIMIT :bound
) WHERE summary IS NULL;

-- name: drop_states
DELETE FROM state
WHERE namespace = :namespace AND sources = :sources AND targets = :targets AND success = :success AND key = :key;

-- name: states_after
-- Of successful runs alone.
SELECT s.id, s.sources AS "sources [hepm_names]", s.targets AS "targets [hepm_names]", s.success AS "success [hepm_flag]",
       s.key, s.count, s.seen, s.trajectory, s.step, s.summary, v.embedding
FROM state_after a JOIN state s ON s.id = a.state JOIN vector v ON v.state = s.id
WHERE a.namespace = :namespace AND a.tool = :tool AND a.state > :newer_than AND s.success = 1
ORDER BY a.state;

-- name: states_at
-- Vectors of states, by the number of each in the list.
SELECT j.key, v.embedding
FROM json_each(:places) j
CROSS JOIN state s ON s.namespace = :namespace AND s.sources = j.value ->> '$[0][0]'
    AND s.targets = j.value ->> '$[0][1]' AND s.success = j.value ->> '$[0][2]' AND s.key = j.value ->> '$[1]'
CROSS JOIN vector v ON v.state = s.id;

-- name: vectors_of_states
SELECT s.summary, v.embedding FROM json_each(:ids) j CROSS JOIN state s ON s.id = j.value JOIN vector v ON v.state = s.id
WHERE s.namespace = :namespace AND s.summary IS NOT NULL;

-- name: embedded_states
SELECT s.id, s.sources AS "sources [hepm_names]", s.targets AS "targets [hepm_names]", s.success AS "success [hepm_flag]",
       s.key, s.count, s.seen, s.trajectory, s.step, s.summary, v.embedding
FROM state s JOIN vector v ON v.state = s.id
WHERE s.namespace = :namespace AND s.success = 1 AND s.summary IS NOT NULL ORDER BY s.id;

-- name: states
SELECT s.id, s.sources AS "sources [hepm_names]", s.targets AS "targets [hepm_names]", s.success AS "success [hepm_flag]",
       s.key, s.count, s.seen, s.trajectory, s.step, s.summary
FROM state s WHERE s.namespace = :namespace AND s.summary IS NOT NULL ORDER BY s.id;

-- name: states_without_vector
SELECT s.id, s.summary FROM state s
WHERE s.namespace = :namespace AND s.summary IS NOT NULL AND NOT EXISTS (SELECT 1 FROM vector v WHERE v.state = s.id)
ORDER BY s.id;

-- name: held_states
-- NOT INDEXED reads the table in order; through an index, all rows would be sorted.
SELECT s.id, s.sources AS "sources [hepm_names]", s.targets AS "targets [hepm_names]", s.success AS "success [hepm_flag]",
       s.key, s.count, s.seen, s.trajectory, s.step, s.summary, v.embedding
FROM state s NOT INDEXED LEFT JOIN vector v ON v.state = s.id WHERE s.namespace = :namespace ORDER BY s.id;

-- name: state_links
SELECT a.tool, s.sources AS "sources [hepm_names]", s.targets AS "targets [hepm_names]", s.success AS "success [hepm_flag]", s.key FROM state_after a CROSS JOIN state s ON s.id = a.state
WHERE a.namespace = :namespace;

-- name: evidence
-- Of each edge the latest successful runs that took it, and what agents knew then: most often seen first, then latest.
-- It stops at the last run wanted, however many took the edge; each state is read once, however many edges leave its tool.
WITH edge AS MATERIALIZED (SELECT key, value ->> 0 AS source, value ->> 1 AS target FROM json_each(:edges)),
told AS MATERIALIZED (
    SELECT e.key, s.summary, row_number() OVER (
        PARTITION BY e.key ORDER BY sum(s.count) DESC, max(s.seen) DESC, s.summary
    ) AS place
    FROM (SELECT DISTINCT source FROM edge WHERE :most_summaries > 0) o
    CROSS JOIN state_after a ON a.namespace = :namespace AND a.tool = o.source
    CROSS JOIN state s ON s.id = a.state AND s.success = 1 AND s.summary IS NOT NULL
    CROSS JOIN json_each(s.targets) t
    CROSS JOIN edge e ON e.source = a.tool AND e.target = t.value
    GROUP BY e.key, s.summary
)
SELECT e.key, (SELECT json_group_array(id) FROM (
           SELECT t.id FROM passage p CROSS JOIN trajectory t INDEXED BY trajectory_outcome
               ON t.namespace = p.namespace AND t.success = 1 AND t.seq = p.trajectory
           WHERE p.namespace = :namespace AND p.source = e.source AND p.target = e.target
           ORDER BY p.trajectory DESC LIMIT :most_runs)) AS "runs [hepm_names]",
       (SELECT json_group_array(summary) FROM (
           SELECT summary FROM told WHERE key = e.key AND place <= :most_summaries ORDER BY place)) AS "summaries [hepm_names]"
FROM edge e ORDER BY e.key;

-- name: drop_all_vectors
DELETE FROM vector;

-- name: drop_all_run_vectors
DELETE FROM run_vector;

-- name: clear_run_vectors
DELETE FROM run_vector WHERE trajectory IN (SELECT seq FROM trajectory WHERE namespace = :namespace);

-- name: clear_states
DELETE FROM state WHERE namespace = :namespace;

-- name: clear_edges
DELETE FROM edge WHERE namespace = :namespace;

-- name: clear_run_edges
DELETE FROM passage WHERE namespace = :namespace;

-- name: clear_tool_runs
DELETE FROM tool_run WHERE namespace = :namespace;
