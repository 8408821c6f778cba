"""The folder of a bench: each answer of the model and each run, on disk before it is used.

Killed at any point, a bench goes on from it, and asks for no answer twice that is there.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Any, Final, NamedTuple, Self

from pydantic import TypeAdapter

from hepm.agents.wire import Object
from hepm.atomic_file import atomic_file
from hepm.errors import ConflictError, InputError
from hepm.ingest.formats.hepm import parse_run, write_run
from hepm.llm import PaidAnswer, Usage
from hepm.text import cut
from hepm.types import Trajectory

ANSWERS: Final = "answers.db"
RUNS: Final = "runs.jsonl"  # written at the end of a command, for `hepm ingest`
# `number` counts the requests of a run from 0. `settings` also holds the notes of rounds.
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS answers (
    arm TEXT, task TEXT, trial INTEGER, number INTEGER, request TEXT NOT NULL, answer TEXT NOT NULL,
    usage TEXT NOT NULL, PRIMARY KEY (arm, task, trial, number)
);
CREATE TABLE IF NOT EXISTS runs (
    arm TEXT, task TEXT, trial INTEGER, facts TEXT NOT NULL, run TEXT NOT NULL, PRIMARY KEY (arm, task, trial)
);
CREATE TABLE IF NOT EXISTS questions (key TEXT PRIMARY KEY, answer TEXT NOT NULL);
"""


class Key(NamedTuple):
    """One run: trials of a task are numbered from 0."""

    arm: str
    task: str
    trial: int

    def __str__(self) -> str:
        return f"{self.arm}/{self.task}/{self.trial}"

    @property
    def of_user(self) -> Key:
        """Where the answers of the model that plays the user are kept."""
        return self._replace(arm=f"{self.arm}, user")


@dataclass(frozen=True, slots=True)
class Facts:
    """What was measured in one run.

    Attributes:
        errors: Calls that failed, and texts of an agent with tags that took no action.
        moves: What the model did at each step: its calls, or its text.
        hints: What memory said at each step; "" for nothing.
        memory_s: Seconds in memory at each step.
        usage: Of the run's requests.
        lessons: Ids of the lessons that memory showed.
        scores: What the environment judges besides the reward (`Episode.scores`).
        entropies: Of the first token of each answer, in nats; None where the endpoint gave no log-probabilities.
    """

    reward: float
    success: bool
    turns: int
    calls: int
    errors: int
    moves: tuple[str, ...]
    hints: tuple[str, ...]
    memory_s: tuple[float, ...]
    usage: Usage
    lessons: tuple[str, ...] = ()
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    entropies: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """A finished run."""

    key: Key
    facts: Facts
    run: Trajectory


_FACTS: Final = TypeAdapter(Facts)
_USAGE: Final = TypeAdapter(Usage)
_ANSWER: Final = TypeAdapter(PaidAnswer)


class Folder:
    """The folder, for one process at a time. Threads may share it.

    Args:
        settings: What shapes the answers. A folder that was made with others is refused.
    Raises:
        ConflictError: it was made with other settings.
        InputError: it cannot be used, or another process works in it.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self.path = path
        self._lock = Lock()
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path / ANSWERS, timeout=0.5, check_same_thread=False, isolation_level=None)
            # EXCLUSIVE keeps other processes out; FULL, as each answer was paid for and must survive a power cut.
            self._db.executescript(
                f"PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; {_SCHEMA}"
            )
        except (OSError, sqlite3.Error) as error:
            why = "another process works in it" if "locked" in str(error) else error
            raise InputError(f"the folder {path} cannot be used: {why}.") from error
        try:
            self._check(settings)
        except ConflictError:
            self._db.close()
            raise

    def _check(self, settings: Mapping[str, Any]) -> None:
        # With a row in one of the tables that cost something, settings bind.
        if not any(self._rows(f"SELECT 1 FROM {table} LIMIT 1") for table in ("answers", "runs", "questions")):
            self._write("DELETE FROM settings", ())  # of a command that got no answer
        stored = {name: json.loads(value) for name, value in self._rows("SELECT name, value FROM settings")}
        # Through JSON and back, so that a tuple equals the list that was stored.
        given: Object = json.loads(json.dumps(settings))
        for name, value in given.items():
            if stored.get(name, value) != value:
                raise ConflictError(
                    f"the folder {self.path} holds runs with another {name} ({cut(json.dumps(stored[name]), 80)}, now "
                    f"{cut(json.dumps(value), 80)}): name another --folder, or repeat the command as it was."
                )
        for name in given.keys() - stored.keys():
            self.add_note(name, given[name])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._db.close()

    def _rows(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._db.execute(query, values).fetchall()

    def _write(self, statement: str, values: Sequence[object]) -> None:
        """One statement, on disk when it returns."""
        with self._lock:
            self._db.execute(statement, values)

    def answer(self, key: Key, number: int, body: Object) -> Object | None:
        """The recorded completion to a run's request; None if there is none, or if the run now asks another thing."""
        of_run = "FROM answers WHERE arm = ? AND task = ? AND trial = ? AND number"
        for request, answer in self._rows(f"SELECT request, answer {of_run} = ?", (*key, number)):
            if request == _digest(body):
                return json.loads(answer)
            # The answers after it were given on another course, too.
            self._write(f"DELETE {of_run} >= ?", (*key, number))
        return None

    def add_answer(self, key: Key, number: int, body: Object, answer: Object, usage: Usage) -> None:
        """Record an answer with what it took; it survives a kill from then on."""
        self._write(
            "INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?, ?)",
            # The digest of the request, not its text: folders of long runs stay small.
            (*key, number, _digest(body), json.dumps(answer), _USAGE.dump_json(usage).decode()),
        )

    def usage(self, key: Key) -> Usage:
        """What the recorded answers of a run took."""
        rows = self._rows("SELECT usage FROM answers WHERE arm = ? AND task = ? AND trial = ?", key)
        return sum((_USAGE.validate_json(stored) for [stored] in rows), Usage())

    def add_run(self, ended: Ended) -> None:
        """Record a finished run."""
        self._write(
            "INSERT INTO runs VALUES (?, ?, ?, ?, ?)",
            (*ended.key, _FACTS.dump_json(ended.facts).decode(), write_run(ended.run)),
        )

    def runs(self) -> dict[Key, Ended]:
        """The finished runs."""
        runs: dict[Key, Ended] = {}
        for arm, task, trial, facts, run in self._rows("SELECT * FROM runs ORDER BY arm, task, trial"):
            key = Key(arm, task, trial)
            runs[key] = Ended(key, _FACTS.validate_json(facts), parse_run(run))
        return runs

    def note(self, name: str) -> Any:
        """What was noted under a name; None if nothing was."""
        for [value] in self._rows("SELECT value FROM settings WHERE name = ?", (name,)):
            return json.loads(value)
        return None

    def add_note(self, name: str, value: Any) -> None:
        """Note how far the work came, as JSON; it survives a kill from then on."""
        self._write("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, json.dumps(value)))

    def export(self) -> None:
        """Write the finished runs where `hepm ingest` reads them."""
        lines = [write_run(ended.run) + "\n" for ended in self.runs().values()]
        # Whole or not at all: `hepm ingest` may read it meanwhile.
        with atomic_file(self.path / RUNS, "the runs") as place:
            place.write_text("".join(lines), "utf-8")

    def get(self, key: str) -> PaidAnswer | None:
        """The answer to a `Question`, as a `Ledger` gives it."""
        for [stored] in self._rows("SELECT answer FROM questions WHERE key = ?", (key,)):
            return _ANSWER.validate_json(stored)
        return None

    def put(self, key: str, answer: PaidAnswer) -> None:
        self._write("INSERT OR REPLACE INTO questions VALUES (?, ?)", (key, _ANSWER.dump_json(answer).decode()))


def _digest(body: Object) -> str:
    # 16 bytes instead of a request of many kilobytes; sorted, as the order of keys changes no request.
    return blake2b(json.dumps(body, sort_keys=True).encode(), digest_size=16).hexdigest()
