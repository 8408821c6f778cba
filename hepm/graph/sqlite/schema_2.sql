-- Version 2: what runs taught. Lessons are a record of their own: they cannot be made again from the runs.

CREATE TABLE lesson (
    seq INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,        -- experience, principle, notes
    user TEXT NOT NULL,        -- whose notes; '' for what all may see
    live INTEGER NOT NULL,     -- 0: retired, kept to be looked at
    shown INTEGER NOT NULL,    -- runs it was shown in,
    uses INTEGER NOT NULL,     -- those whose outcome is known,
    successes INTEGER NOT NULL, -- and those that succeeded
    changed INTEGER NOT NULL,  -- the revision that last touched it
    record TEXT NOT NULL,      -- JSON
    embedding BLOB,            -- of its text: float16, little endian
    UNIQUE (namespace, id)
);
CREATE INDEX lesson_changed ON lesson (namespace, changed);
CREATE INDEX lesson_user ON lesson (namespace, user) WHERE user <> '';

-- (lesson)-[:FROM]->(:Trajectory), to find what a run taught.
CREATE TABLE lesson_source (
    namespace TEXT NOT NULL,
    run TEXT NOT NULL,
    lesson TEXT NOT NULL,
    PRIMARY KEY (namespace, run, lesson)
) WITHOUT ROWID;
CREATE INDEX lesson_source_lesson ON lesson_source (namespace, lesson);

-- What was shown in a run, and how that ended.
CREATE TABLE showing (
    namespace TEXT NOT NULL,
    run TEXT NOT NULL,
    lesson TEXT NOT NULL,
    success INTEGER,           -- 1, 0, or NULL while unknown
    PRIMARY KEY (namespace, run, lesson)
) WITHOUT ROWID;
CREATE INDEX showing_lesson ON showing (namespace, lesson);

-- Outcomes that were told of runs, stored or not.
CREATE TABLE told_outcome (
    namespace TEXT NOT NULL,
    run TEXT NOT NULL,
    success INTEGER NOT NULL,
    PRIMARY KEY (namespace, run)
) WITHOUT ROWID;

-- What a model was asked and paid for.
CREATE TABLE answer (
    namespace TEXT NOT NULL,
    key TEXT NOT NULL,
    step TEXT NOT NULL,
    run TEXT NOT NULL,         -- the run it is about; '' for none
    user TEXT NOT NULL,        -- the user whose notes it is about; '' for nobody's
    text TEXT NOT NULL,
    usage TEXT NOT NULL,       -- JSON
    PRIMARY KEY (namespace, key)
) WITHOUT ROWID;
CREATE INDEX answer_run ON answer (namespace, run);
CREATE INDEX answer_step ON answer (namespace, step, run);
