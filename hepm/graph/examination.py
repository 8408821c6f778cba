"""hepm doctor: compare a store with a second one that its records make anew, in memory that does not grow with runs."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

import numpy as np

from hepm.graph.delta import COLUMNS, RunRecord
from hepm.graph.lessons.rows import LessonRow, Reported, from_record
from hepm.graph.rows import Aliases, RecordParser, TextVectors, batches, read_each
from hepm.graph.sqlite.store import SQLiteStore
from hepm.graph.store import Store
from hepm.graph.stored_vectors import of_size
from hepm.text import count_of, cut

ExaminationProgress: TypeAlias = Callable[[int, int], object]

_SHOWN_CHARS: Final = 60  # of each value in it
_WHOLE_CHARS: Final = 200  # up to which a text is compared as it is; of a longer one its beginning and a hash


class RecordKind(NamedTuple):
    """Rows of a statement that two stores are compared by.

    Attributes:
        columns: All of the statement, separated by spaces: "-" for one that is not compared, "*" before one that names
            the row. Lists are compared sorted.
        having: A column without which a row is left out; "" for none.
    """

    statement: str
    columns: str
    having: str = ""


_STATE: Final = "- *sources *targets *success *key"
_LESSON: Final = "user live runs shown uses successes"
_COUNTED: Final = {
    "edge": RecordKind("edges", "*source *target support inverse_steps failures unlabelled"),
    "run edge": RecordKind("run_edges", "*source *target *run"),
    "outcome of a tool": RecordKind("outcomes", "*tool *run ended failed"),
    "tool": RecordKind("tools", "*tool - - calls errors - - - - - -", having="calls"),
    "state": RecordKind("held_states", f"{_STATE} count seen trajectory step summary -"),
    "exposure": RecordKind("showings", "*run *lesson success"),
}
_DERIVED: Final = {
    **_COUNTED,
    "run": RecordKind("held_runs", f"*{' '.join(COLUMNS)} - counted -"),
    "state link": RecordKind("state_links", "*tool *sources *targets *success *key"),
    "lesson": RecordKind("held_lessons", f"*id - {_LESSON} -"),
}
_COPIED: Final = {
    **_COUNTED,
    "run": RecordKind("records", "*id record counted"),
    "description": RecordKind(
        "tools",
        "*tool description parameters calls errors described_at changed_at former_description former_parameters "
        "retired aliases",
    ),
    "vector": RecordKind("held_states", f"{_STATE} - - - - - embedding", having="embedding"),
    "lesson": RecordKind("held_lessons", f"*id record {_LESSON} -"),
    "reported outcome": RecordKind("reported_outcomes", "*run success"),
}
"""By the noun of such a row."""
_EMBEDDED: Final = (
    ("run", "held_runs", COLUMNS.index("said")),
    ("lesson", "held_lessons", 1),
    ("state", "held_states", -2),
)
"""What has vectors, in the last column of a statement; and the column with the text that they are of."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong in a store, and what mends it; "" if nothing can."""

    what: str
    repair: Literal["rebuild", "reembed", ""] = "rebuild"


def examine(
    store: Store,
    *,
    namespace: str,
    replay: RecordParser,
    on_progress: ExaminationProgress = lambda done, total: None,
) -> list[Finding]:
    """Compare a namespace with its own records; [] when all is well. Reads every record: O(stored calls).

    Records of runs and lessons make a second store in a temporary folder, whose rows are those expected.

    Args:
        on_progress: Called with how many runs were read, and how many there are.
    """
    # Whatever reads a damaged value may fail: nothing else is compared. The first namespace reports it for the file.
    if store.namespaces()[:1] in ([], [namespace]):
        damaged = store.damage()
        if damaged:
            return [
                Finding(f"the file is damaged: {sentence}; restore the file from an export or a copy", "")
                for sentence in damaged
            ]
    header = store.header
    with TemporaryDirectory(prefix="hepm-doctor-") as folder:
        beside = SQLiteStore(
            Path(folder),
            counting=header.counting,
            states_per_move=header.states_per_move,
            success_from=header.success_from,
        )
        with closing(beside):
            return [
                *_add_runs(store, beside, namespace, replay, on_progress),
                *_add_lessons(store, beside, namespace),
                *_compared(_DERIVED, beside, store, namespace=namespace, right="the stored records"),
                *_in_vectors(store, namespace, header.dimensions),
            ]


def differences(one: Store, other: Store, *, namespace: str) -> list[str]:
    """Sentences on how two stores differ in a namespace; [] if they agree. Row numbers are not compared."""
    found = _compared(_COPIED, one, other, namespace=namespace, right="those of the first store")
    return [finding.what for finding in found]


def _add_runs(
    store: Store,
    beside: Store,
    namespace: str,
    replay: RecordParser,
    on_progress: ExaminationProgress,
) -> Iterator[Finding]:
    """Add the runs of a store, as their records say, to the second one; what is wrong with the records."""
    aliases = store.marks(namespace=namespace).aliases

    def replay_named(records: Sequence[str], _: Aliases = aliases) -> tuple[Sequence[RunRecord], TextVectors]:
        """The runs under the names of this store: the second one knows no aliases, and takes runs back, too."""
        return replay(records, aliases)

    header = store.header
    total = store.totals(namespace=namespace).trajectories
    on_progress(0, total)
    done = 0
    for batch in batches(store.iter_runs(namespace=namespace), 500):
        parsed, _ = read_each([held.record for held in batch], replay, aliases, success_from=header.success_from)
        sound: list[RunRecord] = []
        for held, run in zip(batch, parsed, strict=True):
            if not isinstance(run, RunRecord):
                yield Finding(
                    f"the record of the run {held.id!r} cannot be read ({run}); `hepm forget --trajectory` removes it",
                    "",
                )
            else:
                # A record is read again only where a shorter run of its task comes. Tools are described elsewhere.
                record = "" if header.counting == "all" else run.record
                sound.append(run._replace(record=record, tools=()))
        beside.add(sound, {}, namespace=namespace, replay=replay_named)
        done += len(batch)
        on_progress(done, total)


def _add_lessons(store: Store, beside: Store, namespace: str) -> Iterator[Finding]:
    """Add the lessons of a store, and what was shown of them, to the second one; those that cannot be read."""
    rows: list[LessonRow] = []
    for name, record, *_ in store.iterate("held_lessons", namespace=namespace):
        try:
            rows.append(from_record(record))
        except ValueError as error:
            yield Finding(f"the record of the lesson {name!r} cannot be read ({error}); the repair removes it")
    # Its runs are under the tools' own names, and lessons under any: whether a run heeded one depends on these.
    marks = [(tool.name, tool.retired, tool.aliases) for tool in store.tools(namespace=namespace)]
    beside.write(namespace, lambda write: write.mark_tools(marks))
    lessons = store.lessons
    reported = [Reported(*outcome) for outcome in lessons.outcomes(namespace=namespace).items()]
    beside.lessons.carry(rows, reported=reported, exposures=lessons.exposures(namespace=namespace), namespace=namespace)


def _in_vectors(store: Store, namespace: str, dimensions: int) -> Iterator[Finding]:
    """What has no vector, and vectors that cannot be compared."""
    bad = 0
    for what, statement, text_at in _EMBEDDED:
        missing = 0
        for row in store.iterate(statement, namespace=namespace):
            stored: bytes | None = row[-1]
            if stored is None:
                missing += bool(row[text_at])
                continue
            vector = of_size(stored, dimensions)
            if vector is None or not math.isclose(float(np.linalg.norm(vector)), 1.0, abs_tol=0.01):
                bad += 1
        if missing:
            have = "has" if missing == 1 else "have"
            yield Finding(f"{count_of(missing, what)} {have} no vector: searches do not find it", "reembed")
    if bad:
        yield Finding(f"{bad} vectors are of the wrong size, zero or not a number")


def _compared(
    kinds: Mapping[str, RecordKind], expected: Store, stored: Store, *, namespace: str, right: str
) -> Iterator[Finding]:
    """A finding for each kind of which the rows in a namespace are not those expected.

    Both sides are noted in a temporary file, which SQLite deletes when it is closed.
    """
    with closing(sqlite3.connect("", isolation_level=None)) as db:
        # 16 MiB of cache; a sort takes as much.
        for setting in ("cache_size = -16384", "journal_mode = OFF", "synchronous = OFF", "temp_store = FILE"):
            db.execute(f"PRAGMA {setting}")
        db.execute("CREATE TABLE pair (key TEXT PRIMARY KEY, expected TEXT, stored TEXT) WITHOUT ROWID")
        db.execute("BEGIN")
        for what, kind in kinds.items():
            for side, store in (("expected", expected), ("stored", stored)):
                put = f"INSERT INTO pair (key, {side}) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET {side} = ?2"
                db.executemany(put, _noted(kind, store, namespace))
            ((number,),) = db.execute("SELECT count(*) FROM pair WHERE expected IS NOT stored")
            if number:
                first = db.execute("SELECT * FROM pair WHERE expected IS NOT stored ORDER BY key LIMIT 3")
                shown = "; ".join([_difference(*row) for row in first])
                differ = "differs" if number == 1 else "differ"
                yield Finding(f"{count_of(number, what)} {differ} from {right}: {shown}")
            db.execute("DELETE FROM pair")


def _noted(kind: RecordKind, store: Store, namespace: str) -> Iterator[tuple[str, str]]:
    """What names each row, and what must be equal, as JSON."""
    columns = kind.columns.split(" ")
    for row in store.iterate(kind.statement, namespace=namespace):
        key: list[Any] = []
        values: dict[str, Any] = {}
        for column, value in zip(columns, row, strict=True):
            if column[0] == "*":
                key.append(_plain(value))
            elif column != "-":
                values[column] = _plain(value)
        if not kind.having or values[kind.having]:
            yield json.dumps(key), json.dumps(values)


def _plain(value: Any) -> Any:
    """A value as both databases give it, of a long text what is equal to that of another text if both are."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, bytes):
        return True  # a vector
    if isinstance(value, str) and len(value) > _WHOLE_CHARS:
        return f"{value[:_WHOLE_CHARS]} {hash(value)}"
    if isinstance(value, list | tuple):
        return ", ".join(sorted(cast("Sequence[str]", value)))
    return value


def _difference(key: str, expected: str | None, stored: str | None) -> str:
    parts: list[str | int] = json.loads(key)
    # A number is the outcome or the key of a state.
    label = " -> ".join([part for part in parts if isinstance(part, str)])
    if stored is None:
        return f"{label} is missing"
    if expected is None:
        return f"{label} is not among them"
    found = json.loads(stored)
    differ = [
        f"{name} {cut(str(found[name]), _SHOWN_CHARS)} for {cut(str(value), _SHOWN_CHARS)}"
        for name, value in json.loads(expected).items()
        if found[name] != value
    ]
    return f"{label} has {', '.join(differ)}"
