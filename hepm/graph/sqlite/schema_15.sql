-- Version 15: strict tables, which take no value of another type, and checks of what flags and JSON hold. Values that a
-- former version or another program left are reset on the way: rows that derive from records are dropped, for a rebuild to
-- make; of runs, lessons, tools and changes the value alone is set to what is usual. `hepm doctor --repair` runs this again.

CREATE TABLE strict_meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL CHECK (CASE
        WHEN key IN ('dimensions', 'revision', 'lessons_removed') THEN value <> '' AND value NOT GLOB '*[^0-9]*'
        WHEN key = 'states_per_move' THEN value NOT GLOB '*[^0-9]*' AND CAST(value AS INTEGER) > 0
        WHEN key = 'counting' THEN value IN ('all', 'shortest')
        WHEN key = 'success_from' THEN CAST(value AS REAL) > 0 AND CAST(value AS REAL) <= 1
        ELSE TRUE END)
) STRICT, WITHOUT ROWID;
INSERT OR IGNORE INTO strict_meta SELECT key, value FROM meta WHERE typeof(key) = 'text' AND typeof(value) = 'text';
-- The size of the vectors is that of most of them. Without a size or a name they are of no embedder.
DELETE FROM strict_meta
WHERE key = 'dimensions' AND value = '0' AND EXISTS (SELECT 1 FROM strict_meta WHERE key = 'embedder' AND value <> '');
INSERT OR IGNORE INTO strict_meta
SELECT 'dimensions', ifnull((SELECT dimensions_of(embedding) FROM vector WHERE typeof(embedding) = 'blob'
                             GROUP BY 1 ORDER BY count(*) DESC LIMIT 1), 0)
WHERE EXISTS (SELECT 1 FROM meta) AND NOT EXISTS (SELECT 1 FROM strict_meta WHERE key = 'dimensions');
INSERT OR IGNORE INTO strict_meta
SELECT key, value FROM (
    SELECT 'counting' AS key, 'all' AS value UNION ALL SELECT 'states_per_move', '256' UNION ALL SELECT 'embedder', ''
    UNION ALL SELECT 'revision', (SELECT ifnull(max(revision), 0) FROM change)
) WHERE EXISTS (SELECT 1 FROM meta);
UPDATE strict_meta SET value = iif(key = 'embedder', '', '0')
WHERE key IN ('embedder', 'dimensions')
  AND (SELECT count(*) FROM strict_meta WHERE (key, value) IN (VALUES ('embedder', ''), ('dimensions', '0'))) = 1;
DROP TABLE meta;
ALTER TABLE strict_meta RENAME TO meta;
CREATE TRIGGER whole_header BEFORE DELETE ON meta
WHEN old.key IN ('embedder', 'dimensions', 'revision', 'counting', 'states_per_move')
BEGIN SELECT raise(ABORT, 'the header of a store must be whole'); END;

CREATE TABLE strict_trajectory (
    seq INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    digest TEXT NOT NULL,
    environment TEXT NOT NULL,
    task TEXT NOT NULL,
    model TEXT NOT NULL,
    user TEXT NOT NULL,
    reward REAL,
    success INTEGER CHECK (success IN (0, 1)),  -- NULL where unknown
    steps INTEGER NOT NULL,    -- assistant turns
    ended_at REAL,             -- Unix seconds
    source TEXT NOT NULL,
    counted INTEGER NOT NULL CHECK (counted IN (0, 1)),  -- 0: kept, but another run of its task counts instead
    sequence TEXT NOT NULL CHECK (sequence = '[]' OR sequence GLOB '[[][[][[]*]'),  -- its steps (`RunRecord.columns`)
    said TEXT NOT NULL,        -- what the user said, cut
    record TEXT NOT NULL,      -- hepm's own JSON
    token TEXT NOT NULL DEFAULT '',    -- which token recorded it at a server
    level TEXT NOT NULL DEFAULT '',    -- what the guard drew for its session
    arm TEXT NOT NULL DEFAULT '',      -- of an experiment,
    trial TEXT NOT NULL DEFAULT '',    -- and what is kept to compare the arms, JSON
    refused TEXT NOT NULL DEFAULT '',  -- calls that were refused, JSON: [[source, target], ...]
    UNIQUE (namespace, id)
) STRICT;
INSERT OR REPLACE INTO strict_trajectory
SELECT seq, iif(typeof(namespace) = 'text', namespace, 'recovered'), iif(typeof(id) = 'text', id, 'damaged ' || seq),
       iif(typeof(digest) = 'text', digest, ''), iif(typeof(environment) = 'text', environment, ''),
       iif(typeof(task) = 'text', task, ''), iif(typeof(model) = 'text', model, ''), iif(typeof(user) = 'text', user, ''),
       iif(typeof(reward) IN ('real', 'integer'), reward, NULL), iif(success IN (0, 1), success, NULL),
       iif(typeof(steps) = 'integer', steps, 0), iif(typeof(ended_at) IN ('real', 'integer'), ended_at, NULL),
       iif(typeof(source) = 'text', source, ''), iif(counted IN (0, 1), counted, 0),
       iif(typeof(sequence) = 'text' AND sequence GLOB '[[][[][[]*]', sequence, '[]'),
       iif(typeof(said) = 'text', said, ''), iif(typeof(record) = 'text', record, ''),
       iif(typeof(token) = 'text', token, ''), iif(typeof(level) = 'text', level, ''), iif(typeof(arm) = 'text', arm, ''),
       iif(typeof(trial) = 'text', trial, ''), iif(typeof(refused) = 'text', refused, '')
FROM trajectory;
DROP TABLE trajectory;
ALTER TABLE strict_trajectory RENAME TO trajectory;
CREATE INDEX trajectory_task ON trajectory (namespace, environment, task);
CREATE INDEX trajectory_user ON trajectory (namespace, user) WHERE user <> '';
CREATE INDEX trajectory_arrival ON trajectory (namespace);
CREATE INDEX trajectory_outcome ON trajectory (namespace, success);
CREATE INDEX trajectory_token ON trajectory (namespace, token) WHERE token <> '';
CREATE INDEX trajectory_level ON trajectory (namespace, level, seq, success) WHERE level <> '' AND success IS NOT NULL;
CREATE INDEX trajectory_arm ON trajectory (namespace, seq) WHERE arm <> '';
CREATE INDEX trajectory_refused ON trajectory (namespace, seq) WHERE refused <> '';

CREATE TABLE strict_tool (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    parameters TEXT NOT NULL CHECK (json_valid(replace(replace(parameters, 'NaN', '0'), 'Infinity', '0')) AND parameters GLOB '{*'),
    calls INTEGER NOT NULL,
    errors INTEGER NOT NULL,
    described_at REAL NOT NULL DEFAULT 0,  -- end of the run with this description, Unix seconds
    changed_at REAL NOT NULL DEFAULT 0,    -- when it replaced the former one; 0: there was none
    former_description TEXT NOT NULL DEFAULT '',
    former_parameters TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(replace(replace(former_parameters, 'NaN', '0'), 'Infinity', '0')) AND former_parameters GLOB '{*'),
    retired INTEGER NOT NULL DEFAULT 0 CHECK (retired IN (0, 1)),
    aliases TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(aliases) AND (aliases = '[]' OR aliases GLOB '[[]"*"]')),
    PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;
INSERT INTO strict_tool
SELECT namespace, name, iif(typeof(description) = 'text', description, ''),
       iif(typeof(parameters) = 'text' AND json_valid(replace(replace(parameters, 'NaN', '0'), 'Infinity', '0')) AND parameters GLOB '{*', parameters, '{}'),
       iif(typeof(calls) = 'integer', calls, 0), iif(typeof(errors) = 'integer', errors, 0),
       iif(typeof(described_at) IN ('real', 'integer'), described_at, 0),
       iif(typeof(changed_at) IN ('real', 'integer'), changed_at, 0),
       iif(typeof(former_description) = 'text', former_description, ''),
       iif(typeof(former_parameters) = 'text' AND json_valid(replace(replace(former_parameters, 'NaN', '0'), 'Infinity', '0')) AND former_parameters GLOB '{*',
           former_parameters, '{}'),
       iif(retired IN (0, 1), retired, 0),
       iif(typeof(aliases) = 'text' AND json_valid(aliases) AND aliases GLOB '[[]"*"]', aliases, '[]')
FROM tool WHERE typeof(namespace) = 'text' AND typeof(name) = 'text';
DROP TABLE tool;
ALTER TABLE strict_tool RENAME TO tool;
CREATE INDEX tool_marked ON tool (namespace) WHERE retired <> 0 OR aliases <> '[]';

CREATE TABLE strict_edge (
    namespace TEXT NOT NULL,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    support INTEGER NOT NULL,
    inverse_steps INTEGER NOT NULL,  -- sum of 1/n in units of 2^-32
    failures INTEGER NOT NULL,
    unlabelled INTEGER NOT NULL,
    PRIMARY KEY (namespace, source, target)
) STRICT, WITHOUT ROWID;
INSERT INTO strict_edge
SELECT * FROM edge WHERE typeof(namespace) || typeof(source) || typeof(target) = 'texttexttext'
    AND typeof(support) || typeof(inverse_steps) || typeof(failures) || typeof(unlabelled) = 'integerintegerintegerinteger';
DROP TABLE edge;
ALTER TABLE strict_edge RENAME TO edge;

-- Which runs took an edge.
CREATE TABLE strict_passage (
    namespace TEXT NOT NULL,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    trajectory INTEGER NOT NULL,
    PRIMARY KEY (namespace, source, target, trajectory)
) STRICT, WITHOUT ROWID;
INSERT INTO strict_passage
SELECT * FROM passage
WHERE typeof(namespace) || typeof(source) || typeof(target) || typeof(trajectory) = 'texttexttextinteger';
DROP TABLE passage;
ALTER TABLE strict_passage RENAME TO passage;
CREATE INDEX passage_trajectory ON passage (trajectory);

-- Whether the calls of a run to a tool failed, all of those of which it is recorded, in the order in which runs ended.
CREATE TABLE strict_tool_run (
    namespace TEXT NOT NULL,
    tool TEXT NOT NULL,
    ended REAL NOT NULL,       -- Unix seconds; 0 if unknown
    trajectory INTEGER NOT NULL,
    failed INTEGER NOT NULL CHECK (failed IN (0, 1)),
    PRIMARY KEY (namespace, tool, ended, trajectory)
) STRICT, WITHOUT ROWID;
INSERT INTO strict_tool_run
SELECT * FROM tool_run
WHERE typeof(namespace) || typeof(tool) || typeof(trajectory) = 'texttextinteger' AND typeof(ended) IN ('real', 'integer')
    AND failed IN (0, 1);
DROP TABLE tool_run;
ALTER TABLE strict_tool_run RENAME TO tool_run;
CREATE INDEX tool_run_trajectory ON tool_run (trajectory);

-- State summaries on a move (set of tools before, set of tools after), near-identical ones merged. A row whose summary is
-- NULL went over the bound: it keeps its count, so that rows can be added in any order, but text and vector are gone.
CREATE TABLE strict_state (
    id INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    sources TEXT NOT NULL CHECK (json_valid(sources) AND sources GLOB '[[]"*"]'),  -- sorted
    targets TEXT NOT NULL CHECK (json_valid(targets) AND targets GLOB '[[]"*"]'),  -- sorted
    success INTEGER NOT NULL CHECK (success IN (0, 1)),  -- states of successful and of failed runs never merge
    key INTEGER NOT NULL,      -- equal for near-identical summaries
    count INTEGER NOT NULL,
    seen REAL NOT NULL,        -- latest end of a run that held it, Unix seconds
    trajectory TEXT NOT NULL,  -- id of the run whose wording stands for all
    step INTEGER NOT NULL,
    summary TEXT,
    crowded INTEGER NOT NULL DEFAULT 0 CHECK (crowded IN (0, 1)),  -- 1: its move has had more states than the bound
    UNIQUE (namespace, sources, targets, success, key)
) STRICT;
INSERT INTO strict_state
SELECT * FROM state
WHERE typeof(namespace) || typeof(sources) || typeof(targets) || typeof(trajectory) = 'texttexttexttext'
    AND typeof(key) || typeof(count) || typeof(step) = 'integerintegerinteger' AND typeof(seen) IN ('real', 'integer')
    AND typeof(summary) IN ('text', 'null') AND success IN (0, 1) AND crowded IN (0, 1)
    AND json_valid(sources) AND sources GLOB '[[]"*"]' AND json_valid(targets) AND targets GLOB '[[]"*"]';
DROP TABLE state;
ALTER TABLE strict_state RENAME TO state;
CREATE INDEX state_kept ON state (namespace) WHERE summary IS NOT NULL;
CREATE INDEX state_crowded ON state (namespace, sources, targets, success, summary IS NULL, seen, key) WHERE crowded = 1;

-- (:State)-[:AFTER]->(:Tool)
CREATE TABLE strict_state_after (
    namespace TEXT NOT NULL,
    tool TEXT NOT NULL,
    state INTEGER NOT NULL,
    PRIMARY KEY (namespace, tool, state)
) STRICT, WITHOUT ROWID;
INSERT INTO strict_state_after
SELECT * FROM state_after WHERE typeof(namespace) || typeof(tool) || typeof(state) = 'texttextinteger';
DROP TABLE state_after;
ALTER TABLE strict_state_after RENAME TO state_after;

-- Embeddings are float16, little endian, and may be packed: of a state's summary, and of what the user said in a run.
CREATE TABLE strict_vector (state INTEGER PRIMARY KEY, embedding BLOB NOT NULL) STRICT;
INSERT INTO strict_vector SELECT * FROM vector WHERE typeof(embedding) = 'blob';
DROP TABLE vector;
ALTER TABLE strict_vector RENAME TO vector;
CREATE TABLE strict_run_vector (trajectory INTEGER PRIMARY KEY, embedding BLOB NOT NULL) STRICT;
INSERT INTO strict_run_vector SELECT * FROM run_vector WHERE typeof(embedding) = 'blob';
DROP TABLE run_vector;
ALTER TABLE strict_run_vector RENAME TO run_vector;

-- What each revision touched, so that a mirror re-reads only that.
CREATE TABLE strict_change (
    revision INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    -- Tools whose edges or states changed; null if any may have.
    sources TEXT NOT NULL CHECK (json_valid(sources) AND (sources IN ('null', '[]') OR sources GLOB '[[]"*"]')),
    rewritten INTEGER NOT NULL -- 1: texts were replaced, 2: labelled runs were removed; 0: only added
) STRICT;
INSERT INTO strict_change
SELECT revision, iif(typeof(namespace) = 'text', namespace, ''),
       iif(typeof(sources) = 'text' AND json_valid(sources) AND (sources = '[]' OR sources GLOB '[[]"*"]'), sources, 'null'),
       iif(typeof(rewritten) = 'integer', rewritten, 2)
FROM change;
DROP TABLE change;
ALTER TABLE strict_change RENAME TO change;

CREATE TABLE strict_lesson (
    seq INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,        -- experience, principle, notes
    user TEXT NOT NULL,        -- whose notes; '' for what all may see
    live INTEGER NOT NULL CHECK (live IN (0, 1)),  -- 0: retired, kept to be looked at
    shown INTEGER NOT NULL,    -- runs it was shown in,
    uses INTEGER NOT NULL,     -- those whose outcome is known,
    successes INTEGER NOT NULL, -- and those that succeeded
    changed INTEGER NOT NULL CHECK (changed >= 0),  -- the revision that last touched it
    record TEXT NOT NULL,      -- JSON
    embedding BLOB,            -- of its text: float16, little endian
    UNIQUE (namespace, id)
) STRICT;
INSERT OR REPLACE INTO strict_lesson
SELECT seq, iif(typeof(namespace) = 'text', namespace, 'recovered'), iif(typeof(id) = 'text', id, 'damaged ' || seq),
       iif(typeof(kind) = 'text', kind, ''), iif(typeof(user) = 'text', user, ''), iif(live IN (0, 1), live, 1),
       iif(typeof(shown) = 'integer', shown, 0), iif(typeof(uses) = 'integer', uses, 0),
       iif(typeof(successes) = 'integer', successes, 0), iif(typeof(changed) = 'integer' AND changed >= 0, changed, 0),
       iif(typeof(record) = 'text', record, ''), iif(typeof(embedding) = 'blob', embedding, NULL)
FROM lesson;
DROP TABLE lesson;
ALTER TABLE strict_lesson RENAME TO lesson;
CREATE INDEX lesson_changed ON lesson (namespace, changed);
CREATE INDEX lesson_user ON lesson (namespace, user) WHERE user <> '';

-- (lesson)-[:FROM]->(:Trajectory), to find what a run taught.
CREATE TABLE strict_lesson_source (
    namespace TEXT NOT NULL,
    run TEXT NOT NULL,
    lesson TEXT NOT NULL,
    PRIMARY KEY (namespace, run, lesson)
) STRICT, WITHOUT ROWID;
INSERT INTO strict_lesson_source
SELECT * FROM lesson_source WHERE typeof(namespace) || typeof(run) || typeof(lesson) = 'texttexttext';
DROP TABLE lesson_source;
ALTER TABLE strict_lesson_source RENAME TO lesson_source;
CREATE INDEX lesson_source_lesson ON lesson_source (namespace, lesson);

-- What was shown in a run, and how that ended.
CREATE TABLE strict_showing (
    namespace TEXT NOT NULL,
    run TEXT NOT NULL,
    lesson TEXT NOT NULL,
    success INTEGER CHECK (success IN (0, 1)),  -- NULL while unknown
    PRIMARY KEY (namespace, run, lesson)
) STRICT, WITHOUT ROWID;
INSERT INTO strict_showing
SELECT namespace, run, lesson, iif(success IN (0, 1), success, NULL)
FROM showing WHERE typeof(namespace) || typeof(run) || typeof(lesson) = 'texttexttext';
DROP TABLE showing;
ALTER TABLE strict_showing RENAME TO showing;
CREATE INDEX showing_lesson ON showing (namespace, lesson);

-- Outcomes that were told of runs, stored or not.
CREATE TABLE strict_told_outcome (
    namespace TEXT NOT NULL,
    run TEXT NOT NULL,
    success INTEGER NOT NULL CHECK (success IN (0, 1)),
    PRIMARY KEY (namespace, run)
) STRICT, WITHOUT ROWID;
INSERT INTO strict_told_outcome
SELECT * FROM told_outcome WHERE typeof(namespace) || typeof(run) = 'texttext' AND success IN (0, 1);
DROP TABLE told_outcome;
ALTER TABLE strict_told_outcome RENAME TO told_outcome;

-- What a model was asked and paid for.
CREATE TABLE strict_answer (
    namespace TEXT NOT NULL,
    key TEXT NOT NULL,
    step TEXT NOT NULL,
    run TEXT NOT NULL,         -- the run it is about; '' for none
    user TEXT NOT NULL,        -- the user whose notes it is about; '' for nobody's
    text TEXT NOT NULL,
    usage TEXT NOT NULL CHECK (usage = '' OR json_valid(usage) AND usage GLOB '{*'),
    PRIMARY KEY (namespace, key)
) STRICT, WITHOUT ROWID;
INSERT INTO strict_answer
SELECT namespace, key, step, run, user, text,
       iif(typeof(usage) = 'text' AND json_valid(usage) AND usage GLOB '{*', usage, '')
FROM answer
WHERE typeof(namespace) || typeof(key) || typeof(step) || typeof(run) || typeof(user) || typeof(text)
    = 'texttexttexttexttexttext';
DROP TABLE answer;
ALTER TABLE strict_answer RENAME TO answer;
CREATE INDEX answer_run ON answer (namespace, run);
CREATE INDEX answer_step ON answer (namespace, step, run);
