"""Compare derived and copied data of a store with what its records make, in memory that does not grow with the runs."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal, TypeAlias, get_args

from hepm.graph.changes import stored_twice
from hepm.graph.delta import RunRecord
from hepm.graph.examination.differences import COUNTS, Kinds, Row, compared, counted_runs, states
from hepm.graph.examination.findings import SHOWN, Differing, Embed, Finding, Vectors
from hepm.graph.lessons.rows import UNUSED, from_record
from hepm.graph.lessons.transaction import recount, wrong_exposures
from hepm.graph.mirror.namespace_mirror import NamespaceMirror
from hepm.graph.rows import HeldRun, RecordParser, batches, read_each
from hepm.graph.sqlite.store import SQLiteStore
from hepm.graph.store import Store

Part: TypeAlias = Literal["links", "runs", "counts", "states", "vectors", "lessons"]
"""Rows that point to nothing; columns beside the records of runs; counts; states; vectors; lessons."""
PARTS: Final[tuple[Part, ...]] = get_args(Part)
ExaminationProgress: TypeAlias = Callable[[int, int], object]

_BATCH: Final = 500  # runs between two calls of `on_progress`
_SAMPLED: Final = 8  # vectors of a model
_COUNTED: Final[Mapping[Part, Kinds]] = {"runs": {"run": counted_runs}, "counts": COUNTS, "states": {"state": states}}
"""What is compared with a store that the records make anew."""


def examine(
    store: Store,
    mirror: NamespaceMirror | None,
    *,
    namespace: str,
    replay: RecordParser,
    embed: Embed | None = None,
    parts: Collection[Part] = PARTS,
    on_progress: ExaminationProgress = lambda done, total: None,
) -> list[Finding]:
    """Compare a namespace with its own records; [] when all is well. Reads every record: O(stored calls).

    The records make a second store in a temporary folder, whose counts and states are those expected.

    Args:
        mirror: Is compared with the store, with the part "counts"; None if nothing was read yet.
        embed: Makes the vectors again that stored ones are compared with, by a model only a few, as all of them take
            hours or cost money; None checks only their sizes.
        parts: What is compared.
        on_progress: Called with how many runs were read, and how many there are.
    """
    # Whatever reads a damaged value may fail: nothing else is compared before these are reset.
    damaged = _damage(store, namespace)
    if damaged:
        return damaged
    findings: list[Finding] = []
    vectors: Vectors | None = None
    if "vectors" in parts:
        most = None if store.header.embedder.startswith("hepm/") else _SAMPLED
        vectors = Vectors(store.header.dimensions, embed, most=most)
    total = store.totals(namespace=namespace).trajectories
    on_progress(0, total)
    if "links" in parts:
        findings += [Finding(sentence) for sentence in store.orphans(namespace=namespace)]
    findings += _record_findings(store, namespace, parts, vectors, replay, lambda done: on_progress(done, total))
    if vectors is not None:
        for row, kept_text, vector in store.iter_held_states(namespace=namespace):
            if kept_text:
                vectors.check("state", row.summary, vector)
    if "lessons" in parts or vectors is not None:
        # Read for their vectors, too.
        lesson_findings = list(_lesson_findings(store, namespace, vectors))
        if "lessons" in parts:
            findings += lesson_findings
    if vectors is not None:
        findings += vectors.findings()
    if mirror is not None and "counts" in parts:
        findings += _mirror_findings(store, mirror)
    return findings


def _record_findings(
    store: Store,
    namespace: str,
    parts: Collection[Part],
    vectors: Vectors | None,
    replay: RecordParser,
    on_read: Callable[[int], object],
) -> Iterator[Finding]:
    kinds: dict[str, Callable[[Store, str], Iterable[Row]]] = {}
    for part, of_part in _COUNTED.items():
        if part in parts:
            kinds.update(of_part)
    if not kinds and vectors is None:
        return
    with _without_collection(), _empty_store_like(store) as beside:
        records = _Records(store, beside if kinds else None, namespace, vectors)
        records.read(replay, on_read)
        yield from records.findings(columns="runs" in parts)
        yield from compared(kinds, beside, store, namespace=namespace, right="the stored records")


@contextmanager
def _empty_store_like(store: Store) -> Generator[SQLiteStore]:
    """A temporary store that counts as another one does."""
    header = store.header
    with TemporaryDirectory(prefix="hepm-doctor-") as folder:
        beside = SQLiteStore(Path(folder), counting=header.counting, states_per_move=header.states_per_move)
        try:
            beside.set_success_from(header.success_from, lambda write: None)
            yield beside
        finally:
            beside.close()


def _damage(store: Store, namespace: str) -> list[Finding]:
    # The first namespace reports the damage of the whole file.
    if store.namespaces()[:1] not in ([], [namespace]):
        return []
    return [Finding(sentence) for sentence in store.damage()]


@contextmanager
def _without_collection() -> Generator[None]:
    """No garbage collection: of what a pass over the records makes nothing holds itself, and there is much of it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Records:
    """The stored runs by their records: compared with their columns and vectors, and added to a second store.

    Args:
        beside: The second store; None if nothing of it is compared.
    """

    def __init__(self, store: Store, beside: Store | None, namespace: str, vectors: Vectors | None) -> None:
        self._store = store
        self._beside = beside
        self._namespace = namespace
        self._vectors = vectors
        self._columns = Differing("run", right="what their records say", label=repr)
        self._stored_as: dict[str, str] = {}  # those stored under another id than their own
        self._unreadable: list[Finding] = []

    def read(self, replay: RecordParser, on_read: Callable[[int], object]) -> None:
        """Read all runs in order of arrival; `on_read` is told how many were."""
        store, namespace = self._store, self._namespace
        aliases = store.marks(namespace=namespace).aliases
        header = store.header
        done = 0
        for batch in batches(store.iter_runs(namespace=namespace), _BATCH):
            records = [held.record for held in batch]
            parsed, _ = read_each(records, replay, aliases, success_from=header.success_from)
            known = self._known([run.id for run in parsed if isinstance(run, RunRecord)])
            sound: list[RunRecord] = []
            for held, run in zip(batch, parsed, strict=True):
                if not isinstance(run, RunRecord):
                    what = f"the record of the run {held.id!r} cannot be read ({run})"
                    self._unreadable.append(Finding(f"{what}; `hepm forget --trajectory` removes it", ""))
                elif not self._is_stored_twice(held, run, known):
                    self._compare(held, run)
                    # A record is read again only where a shorter run of its task comes. Tools are described elsewhere.
                    record = "" if header.counting == "all" else run.record
                    sound.append(run._replace(record=record, tools=(), said=""))
            if self._beside is not None:
                self._beside.add(sound, {}, namespace=namespace, replay=replay)
            done += len(batch)
            on_read(done)

    def _known(self, ids: Sequence[str]) -> set[str]:
        """Those of the runs that were read before."""
        if self._beside is None:
            return set()
        return set(self._beside.find_known(ids, namespace=self._namespace))

    def _is_stored_twice(self, held: HeldRun, run: RunRecord, known: set[str]) -> bool:
        """Whether a run is one of the `known` by its record, to which it is added."""
        if run.id in known:
            other = self._stored_as.get(run.id, run.id)
            self._unreadable.append(Finding(stored_twice(run.id, held.id, other), ""))
            return True
        known.add(run.id)
        if held.id != run.id:
            self._stored_as[run.id] = held.id
        return False

    def _compare(self, held: HeldRun, run: RunRecord) -> None:
        self._columns.compare(held.id, self._store.columns_of(run, namespace=self._namespace), held.columns)
        # Only a run with words to compare has a vector.
        if run.said and self._vectors is not None:
            self._vectors.check("run", run.said, held.vector)

    def findings(self, *, columns: bool) -> Iterator[Finding]:
        """What is wrong with the runs read so far; with `columns` also with what stands beside their records."""
        yield from self._unreadable
        if columns:
            yield from self._columns.findings()


def _mirror_findings(store: Store, mirror: NamespaceMirror) -> Iterator[Finding]:
    apart = 0
    for source in sorted(mirror.all_rows()):
        mirrored = {row.tool: (row.support, row.failures) for row in mirror.successors(source)}
        # Tool by tool: no second copy of all edges is held.
        rows = store.edges(namespace=mirror.name, sources=[source])
        apart += mirrored != {row[1]: (row[2], row[4]) for row in rows if row[2]}
    if apart:
        yield Finding(f"the mirror differs from the store after {apart} tools")


def _lesson_findings(store: Store, namespace: str, vectors: Vectors | None) -> Iterator[Finding]:
    lessons = store.lessons
    exposures = lessons.exposures(namespace=namespace)
    counted = recount(exposures)
    differing = Differing("lesson", right="what their records say")
    wrong: list[str] = []
    for held in store.held_lessons(namespace=namespace):
        try:
            row = from_record(held.record)
        except ValueError as error:
            yield Finding(f"the record of the lesson {held.id!r} cannot be read ({error}); the repair removes it")
            continue
        right = {"id": row.id, **store.lesson_columns(row, namespace=namespace)}
        differing.compare(held.id, right, {"id": held.id, **held.columns})
        # Uses are what was shown here, and what came along from another store.
        if counted.get(held.id, UNUSED).plus(row.prior) != held.uses:
            wrong.append(held.id)
        if vectors is not None:
            vectors.check("lesson", row.text, held.vector)
    yield from differing.findings()
    if wrong:
        yield Finding(f"the uses of {len(wrong)} lessons differ from what was shown ({', '.join(wrong[:SHOWN])})")
    runs = store.find_known(list({exposure.run for exposure in exposures}), namespace=namespace)
    ended = {run: known.success for run, known in runs.items()}
    apart = wrong_exposures(exposures, ended, lessons.outcomes(namespace=namespace))
    if apart:
        shown = ", ".join(sorted({exposure.run for exposure, _ in apart})[:SHOWN])
        yield Finding(f"the outcomes of {len(apart)} exposures differ from those of their runs ({shown})")
