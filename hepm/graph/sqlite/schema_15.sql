-- Version 15: strict tables, which take no value of another type, and checks of what flags and JSON hold. A new file
-- begins with this one; those after it change what is there.

CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL CHECK (CASE
        WHEN key IN ('dimensions', 'revision', 'lessons_removed') THEN value <> '' AND value NOT GLOB '*[^0-9]*'
        WHEN key = 'states_per_move' THEN value NOT GLOB '*[^0-9]*' AND CAST(value AS INTEGER) > 0
        WHEN key = 'counting' THEN value IN ('all', 'shortest')
        WHEN key = 'success_from' THEN CAST(value AS REAL) > 0 AND CAST(value AS REAL) <= 1
        ELSE TRUE END)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER whole_header BEFORE DELETE ON meta
WHEN old.key IN ('embedder', 'dimensions', 'revision', 'counting', 'states_per_move')
BEGIN SELECT raise(ABORT, 'the header of a store must be whole'); END;

CREATE TABLE trajectory (
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
CREATE INDEX trajectory_task ON trajectory (namespace, environment, task);
CREATE INDEX trajectory_user ON trajectory (namespace, user) WHERE user <> '';
CREATE INDEX trajectory_arrival ON trajectory (namespace);
CREATE INDEX trajectory_outcome ON trajectory (namespace, success);
CREATE INDEX trajectory_token ON trajectory (namespace, token) WHERE token <> '';
CREATE INDEX trajectory_level ON trajectory (namespace, level, seq, success) WHERE level <> '' AND success IS NOT NULL;
CREATE INDEX trajectory_arm ON trajectory (namespace, seq) WHERE arm <> '';
CREATE INDEX trajectory_refused ON trajectory (namespace, seq) WHERE refused <> '';

CREATE TABLE tool (
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
CREATE INDEX tool_marked ON tool (namespace) WHERE retired <> 0 OR aliases <> '[]';

CREATE TABLE edge (
    namespace TEXT NOT NULL,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    support INTEGER NOT NULL,
    inverse_steps INTEGER NOT NULL,  -- sum of 1/n in units of 2^-32
    failures INTEGER NOT NULL,
    unlabelled INTEGER NOT NULL,
    PRIMARY KEY (namespace, source, target)
) STRICT, WITHOUT ROWID;

-- Which runs took an edge.
CREATE TABLE passage (
    namespace TEXT NOT NULL,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    trajectory INTEGER NOT NULL,
    PRIMARY KEY (namespace, source, target, trajectory)
) STRICT, WITHOUT ROWID;
CREATE INDEX passage_trajectory ON passage (trajectory);

-- Whether the calls of a run to a tool failed, all of those of which it is recorded, in the order in which runs ended.
CREATE TABLE tool_run (
    namespace TEXT NOT NULL,
    tool TEXT NOT NULL,
    ended REAL NOT NULL,       -- Unix seconds; 0 if unknown
    trajectory INTEGER NOT NULL,
    failed INTEGER NOT NULL CHECK (failed IN (0, 1)),
    PRIMARY KEY (namespace, tool, ended, trajectory)
) STRICT, WITHOUT ROWID;
CREATE INDEX tool_run_trajectory ON tool_run (trajectory);

-- State summaries on a move (set of tools before, set of tools after), near-identical ones merged. A row whose summary is
-- NULL went over the bound: it keeps its count, so that rows can be added in any order, but text and vector are gone.
CREATE TABLE state (
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
CREATE INDEX state_kept ON state (namespace) WHERE summary IS NOT NULL;
CREATE INDEX state_crowded ON state (namespace, sources, targets, success, summary IS NULL, seen, key) WHERE crowded = 1;

-- (:State)-[:AFTER]->(:Tool)
CREATE TABLE state_after (
    namespace TEXT NOT NULL,
    tool TEXT NOT NULL,
    state INTEGER NOT NULL,
    PRIMARY KEY (namespace, tool, state)
) STRICT, WITHOUT ROWID;

-- Embeddings are float16, little endian, and may be packed: of a state's summary, and of what the user said in a run.
CREATE TABLE vector (state INTEGER PRIMARY KEY, embedding BLOB NOT NULL) STRICT;
CREATE TABLE run_vector (trajectory INTEGER PRIMARY KEY, embedding BLOB NOT NULL) STRICT;

-- What each revision touched, so that a mirror re-reads only that.
CREATE TABLE change (
    revision INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    -- Tools whose edges or states changed; null if any may have.
    sources TEXT NOT NULL CHECK (json_valid(sources) AND (sources IN ('null', '[]') OR sources GLOB '[[]"*"]')),
    rewritten INTEGER NOT NULL -- 1: texts were replaced, 2: labelled runs were removed; 0: only added
) STRICT;

CREATE TABLE lesson (
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
CREATE INDEX lesson_changed ON lesson (namespace, changed);
CREATE INDEX lesson_user ON lesson (namespace, user) WHERE user <> '';

-- (lesson)-[:FROM]->(:Trajectory), to find what a run taught.
CREATE TABLE lesson_source (
    namespace TEXT NOT NULL,
    run TEXT NOT NULL,
    lesson TEXT NOT NULL,
    PRIMARY KEY (namespace, run, lesson)
) STRICT, WITHOUT ROWID;
CREATE INDEX lesson_source_lesson ON lesson_source (namespace, lesson);

-- What was shown in a run, and how that ended.
CREATE TABLE showing (
    namespace TEXT NOT NULL,
    run TEXT NOT NULL,
    lesson TEXT NOT NULL,
    success INTEGER CHECK (success IN (0, 1)),  -- NULL while unknown
    PRIMARY KEY (namespace, run, lesson)
) STRICT, WITHOUT ROWID;
CREATE INDEX showing_lesson ON showing (namespace, lesson);

-- Outcomes that were told of runs, stored or not.
CREATE TABLE told_outcome (
    namespace TEXT NOT NULL,
    run TEXT NOT NULL,
    success INTEGER NOT NULL CHECK (success IN (0, 1)),
    PRIMARY KEY (namespace, run)
) STRICT, WITHOUT ROWID;

-- What a model was asked and paid for.
CREATE TABLE answer (
    namespace TEXT NOT NULL,
    key TEXT NOT NULL,
    step TEXT NOT NULL,
    run TEXT NOT NULL,         -- the run it is about; '' for none
    user TEXT NOT NULL,        -- the user whose notes it is about; '' for nobody's
    text TEXT NOT NULL,
    usage TEXT NOT NULL CHECK (usage = '' OR json_valid(usage) AND usage GLOB '{*'),
    PRIMARY KEY (namespace, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX answer_run ON answer (namespace, run);
CREATE INDEX answer_step ON answer (namespace, step, run);
