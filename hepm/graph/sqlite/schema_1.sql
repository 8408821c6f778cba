-- Version 1 of the embedded store. The trajectories are the record; every other table can be made again from them.

CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

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
    success INTEGER,           -- 1, 0, or NULL where unknown
    steps INTEGER NOT NULL,    -- assistant turns
    ended_at REAL,             -- Unix seconds
    source TEXT NOT NULL,
    counted INTEGER NOT NULL,  -- 0: kept, but another run of its task counts instead
    sequence TEXT NOT NULL,    -- its steps, for rankers that look further back than one call
    said TEXT NOT NULL,        -- what the user said, cut
    record TEXT NOT NULL,      -- hepm's own JSON
    UNIQUE (namespace, id)
);
CREATE INDEX trajectory_task ON trajectory (namespace, environment, task);
CREATE INDEX trajectory_user ON trajectory (namespace, user) WHERE user <> '';

CREATE TABLE tool (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    parameters TEXT NOT NULL,
    calls INTEGER NOT NULL,
    errors INTEGER NOT NULL,
    PRIMARY KEY (namespace, name)
) WITHOUT ROWID;

CREATE TABLE edge (
    namespace TEXT NOT NULL,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    support INTEGER NOT NULL,
    inverse_steps INTEGER NOT NULL,  -- sum of 1/n in units of 2^-32
    failures INTEGER NOT NULL,
    unlabelled INTEGER NOT NULL,
    PRIMARY KEY (namespace, source, target)
) WITHOUT ROWID;

-- Which runs took an edge.
CREATE TABLE passage (
    namespace TEXT NOT NULL,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    trajectory INTEGER NOT NULL,
    PRIMARY KEY (namespace, source, target, trajectory)
) WITHOUT ROWID;
CREATE INDEX passage_trajectory ON passage (trajectory);

-- State summaries on a move (set of tools before, set of tools after), near-identical ones merged. A row whose summary is
-- NULL went over the bound: it keeps its count, so that rows can be added in any order, but text and vector are gone.
CREATE TABLE state (
    id INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    sources TEXT NOT NULL,     -- JSON list, sorted
    targets TEXT NOT NULL,     -- JSON list, sorted
    success INTEGER NOT NULL,  -- states of successful and of failed runs never merge
    key INTEGER NOT NULL,      -- equal for near-identical summaries
    count INTEGER NOT NULL,
    seen REAL NOT NULL,        -- latest end of a run that held it, Unix seconds
    trajectory TEXT NOT NULL,  -- id of the run whose wording stands for all
    step INTEGER NOT NULL,
    summary TEXT,
    UNIQUE (namespace, sources, targets, success, key)
);

-- (:State)-[:AFTER]->(:Tool)
CREATE TABLE state_after (
    namespace TEXT NOT NULL,
    tool TEXT NOT NULL,
    state INTEGER NOT NULL,
    PRIMARY KEY (namespace, tool, state)
) WITHOUT ROWID;

-- Embeddings are float16, little endian: of a state's summary, and of what the user said in a run.
CREATE TABLE vector (state INTEGER PRIMARY KEY, embedding BLOB NOT NULL);
CREATE TABLE run_vector (trajectory INTEGER PRIMARY KEY, embedding BLOB NOT NULL);

-- What each revision touched, so that a mirror re-reads only that.
CREATE TABLE change (
    revision INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    sources TEXT NOT NULL,     -- JSON list of tools whose edges or states changed
    rewritten INTEGER NOT NULL -- 1: texts were replaced, 2: labelled runs were removed; 0: only added
);
