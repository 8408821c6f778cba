"""Tables of a check in a temporary file, which SQLite deletes when it is closed: what does not fit into memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, Literal, NamedTuple, Self, TypeAlias

from hepm.graph.delta import Delta, RunRecord, StateMove

Side: TypeAlias = Literal["expected", "stored"]
_StateValues: TypeAlias = tuple[StateMove, int, int, float, str, int, str | None]
"""Move, key, count, seen, run, step and summary of a state."""

_CACHE_KIB: Final = 16 * 1024  # a sort takes as much
_DIGEST_BYTES: Final = 16  # two texts of a store that are equal by chance: one in 2^64
_SHOWN_CHARS: Final = 200  # of a text that a sentence may show
_SCHEMA: Final = """
CREATE TABLE run (id BLOB PRIMARY KEY, held BLOB, counted, environment BLOB, task BLOB, steps) WITHOUT ROWID;
CREATE TABLE expected (move, key, count, seen, run BLOB, step, text BLOB, PRIMARY KEY (move, key)) WITHOUT ROWID;
CREATE TABLE stored (move, key, count, seen, run BLOB, step, text BLOB, PRIMARY KEY (move, key)) WITHOUT ROWID;
CREATE TABLE pair (key BLOB PRIMARY KEY, one, other) WITHOUT ROWID;
"""
# Of two texts of a state the later one stays, as in the store.
_ADD_STATE: Final = """
INSERT INTO {side} VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (move, key) DO UPDATE SET count = count + excluded.count,
    (text, step, run) = (SELECT CASE WHEN later THEN excluded.text ELSE text END,
                                CASE WHEN later THEN excluded.step ELSE step END,
                                CASE WHEN later THEN excluded.run ELSE run END
                         FROM (SELECT (excluded.seen, excluded.run, excluded.step) > (seen, run, step) AS later)),
    seen = max(seen, excluded.seen)
"""
# No window function numbers all states: that would sort them.
_LARGE_MOVES: Final = "SELECT move FROM {side} GROUP BY move HAVING count(*) > ?"
_OLDEST_WITH_TEXT: Final = """
SELECT seen, key FROM {side} WHERE move = ? ORDER BY seen DESC, key DESC LIMIT 1 OFFSET ? - 1
"""
_STATES: Final = "SELECT move, key, count, seen, run, step, text FROM {side} ORDER BY move, key"
_WRONGLY_COUNTED: Final = """
SELECT id, place > 1 FROM (
    SELECT id, counted, CASE WHEN steps IS NULL THEN 1
        ELSE row_number() OVER (PARTITION BY environment, task, steps IS NULL ORDER BY steps, id) END AS place FROM run
) WHERE counted = (place > 1) ORDER BY id
"""


class Text(NamedTuple):
    """A text as far as it is compared and shown."""

    digest: bytes
    start: str

    def __str__(self) -> str:
        return self.start


@dataclass(frozen=True)  # without slots, so that `vars` gives the columns
class HeldState:
    """What is compared of a state."""

    count: int
    seen: float
    trajectory: str
    step: int
    summary: Text | None


class ScratchNamespace:
    """The runs and states of a namespace, as their records say and as they are stored."""

    def __init__(self) -> None:
        self._numbers: dict[StateMove, int] = {}
        self._db = sqlite3.connect("", isolation_level=None)
        for setting in (f"cache_size = -{_CACHE_KIB}", "journal_mode = OFF", "synchronous = OFF", "temp_store = FILE"):
            self._db.execute(f"PRAGMA {setting}")
        self._db.executescript(_SCHEMA)
        self._db.execute("BEGIN")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._db.close()

    def add_run(self, run: RunRecord, held: str, *, counted: bool, shortest: bool) -> str | None:
        """Note a stored run by the id in its record; the id of another one that is stored with the same record.

        Args:
            shortest: Only the shortest success of a task is to count.
        """
        competes = shortest and run.success and run.task
        place = _bytes(run.environment), _bytes(run.task), run.steps if competes else None
        row = (_bytes(run.id), _bytes(held), counted, *place)
        if self._db.execute("INSERT OR IGNORE INTO run VALUES (?, ?, ?, ?, ?, ?)", row).rowcount:
            return None
        return _text(self._db.execute("SELECT held FROM run WHERE id = ?", row[:1]).fetchone()[0])

    def wrongly_counted(self) -> Iterator[tuple[str, bool]]:
        """The runs that count and should not (True), or the other way round."""
        for name, excluded in self._db.execute(_WRONGLY_COUNTED):
            yield _text(name), bool(excluded)

    def add_states(self, delta: Delta) -> None:
        """Add the states of further runs to the expected ones."""
        rows: list[_StateValues] = []
        for move, states in delta.states.items():
            for key, state in states.items():
                rows.append((move, key, state.count, state.seen, state.trajectory, state.step, state.summary))
        self._add("expected", rows)

    def add_stored(self, rows: Iterable[_StateValues]) -> None:
        """Add stored states."""
        self._add("stored", rows)

    def _number(self, move: StateMove) -> int:
        return self._numbers.setdefault(move, len(self._numbers))

    def moves(self) -> list[StateMove]:
        """The moves of all states, by number."""
        return list(self._numbers)

    def _add(self, side: Side, states: Iterable[_StateValues]) -> None:
        rows: list[tuple[object, ...]] = []
        for move, key, count, seen, run, step, summary in states:
            rows.append((self._number(move), key, count, seen, _bytes(str(run)), step, _shown(summary)))
        self._db.executemany(_ADD_STATE.format(side=side), rows)

    def states(self, side: Side, bound: int) -> Iterator[tuple[tuple[int, int], HeldState]]:
        """The states of a side by number of move and key, ascending; only the `bound` latest of a move have texts."""
        oldest: dict[int, tuple[float, int]] = {}  # the last one with a text, by large move
        for (move,) in self._db.execute(_LARGE_MOVES.format(side=side), (bound,)).fetchall():
            # One look-up a move: the rows are in the order of their key, not of their age.
            oldest[move] = self._db.execute(_OLDEST_WITH_TEXT.format(side=side), (move, bound)).fetchone()
        for move, key, count, seen, run, step, text in self._db.execute(_STATES.format(side=side)):
            summary = None
            # A text beyond the bound is dropped in the store: it is not expected here either.
            if text is not None and (move not in oldest or (seen, key) >= oldest[move]):
                summary = Text(text[:_DIGEST_BYTES], text[_DIGEST_BYTES:].decode("utf-8", "replace"))
            yield (move, key), HeldState(count, seen, _text(run), step, summary)

    def note(self, side: Literal["one", "other"], rows: Iterable[tuple[str, object]]) -> None:
        """Note rows of one of two stores: what names each, and its content."""
        put = f"INSERT INTO pair (key, {side}) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET {side} = excluded.{side}"
        self._db.executemany(put, ((_bytes(key), hash(content)) for key, content in rows))

    def apart(self, most: int) -> tuple[int, list[str]]:
        """How many of the noted rows differ, and the first few of them by name. All are dropped."""
        ((number,),) = self._db.execute("SELECT count(*) FROM pair WHERE one IS NOT other")
        first = self._db.execute("SELECT key FROM pair WHERE one IS NOT other ORDER BY key LIMIT ?", (most,)).fetchall()
        self._db.execute("DELETE FROM pair")
        return number, [_text(key) for (key,) in first]


def _shown(summary: object) -> bytes | None:
    if summary is None:
        return None
    text = str(summary)
    first = " ".join(text[:_SHOWN_CHARS].split())
    return blake2b(_bytes(text), digest_size=_DIGEST_BYTES).digest() + _bytes(first)


# As bytes: a record may hold half of a surrogate pair, which is no text for SQLite.


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(stored: bytes) -> str:
    return stored.decode("utf-8", "surrogatepass")
