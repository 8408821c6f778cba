"""Distilling lessons from stored runs, task by task: what has been seen is not seen again, and is never lost."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

from hepm.errors import HepmError, InputError
from hepm.experience.credit import BY_REWARD_TO_GO, CreditMethod
from hepm.experience.extractive import distill, distill_principles
from hepm.experience.lessons import EXTRACTIVE, Experience, Principle
from hepm.experience.library import Library, Task
from hepm.experience.zones import reward_of
from hepm.graph.lessons.rows import Kind, LessonRow
from hepm.graph.lessons.store import Changed, LessonChange
from hepm.graph.mirror import switching_often

if TYPE_CHECKING:
    from hepm.experience.experiences import Experiences
    from hepm.experience.principles import Principles

_STORED_AT_ONCE: Final = 256

OUTDATED: Final = "outdated"
"""Why a lesson is retired that its runs no longer teach. If they teach it again, it is revived."""


class Distilled(NamedTuple):
    """What some runs taught.

    Attributes:
        runs: Those that are done.
        failed: Why others taught nothing this time, by run.
        unasked: How many were left out because the budget was spent.
    """

    lessons: tuple[Experience | Principle, ...]
    runs: tuple[str, ...]
    failed: tuple[tuple[str, str], ...] = ()
    unasked: int = 0


class Distiller(Protocol):
    """Makes lessons of one kind out of the runs of tasks."""

    @property
    def name(self) -> str:
        """Who it is: "extractive", or a model's name."""
        ...

    @property
    def kind(self) -> Kind:
        """What it makes."""
        ...

    def distill(self, tasks: Iterable[Task]) -> Iterator[Distilled]:
        """What the wanted runs of the tasks taught, as it comes."""
        ...


class ExtractiveDistiller:
    """Needs no model (see `hepm.experience.extractive`).

    Args:
        methods: How turns are credited in which environment; by reward-to-go where it is not named.
    """

    name = EXTRACTIVE

    def __init__(self, kind: Kind, *, methods: Mapping[str, CreditMethod] = BY_REWARD_TO_GO) -> None:
        self.kind: Kind = kind
        self._methods = methods

    def distill(self, tasks: Iterable[Task]) -> Iterator[Distilled]:
        """What the wanted runs of each task taught."""
        for task in tasks:
            made = (
                distill(task.runs, methods=self._methods, alike=task.alike)
                if self.kind == "experience"
                else distill_principles(task.runs, alike=task.alike)
            )
            kept = [lesson for lesson in made if any(s.run in task.wanted for s in lesson.sources)]
            # A run without a label waits for it.
            seen = [run.id for run in task.runs if run.id in task.wanted and reward_of(run.outcome) is not None]
            yield Distilled(tuple(kept), tuple(seen))


def distiller_of(kind: Kind, distiller: Distiller | None) -> Distiller:
    """The distiller, if it makes lessons of this kind; without one the extractive one."""
    chosen = distiller or ExtractiveDistiller(kind)
    if chosen.kind != kind:
        raise InputError(f"the distiller {chosen.name!r} makes lessons of kind {chosen.kind!r}, not {kind}s.")
    return chosen


@dataclass(frozen=True, slots=True)
class DistilReport:
    """What became of distilling.

    Attributes:
        runs: How many were looked at.
        new: Lessons stored for the first time.
        merged: Lessons known before, or from another task, that further runs taught.
        dropped: Lessons that repeat another one of their task.
        refused: Lessons whose run was forgotten meanwhile.
        failed: Why runs taught nothing this time, by run; they are tried again next time.
        unasked: Runs left for next time because the budget was spent.
        retired: Lessons that their runs no longer teach.
        alike: Runs compared with runs of similar requests, as their task has no other run.
    """

    runs: int = 0
    new: int = 0
    merged: int = 0
    dropped: int = 0
    refused: int = 0
    failed: tuple[tuple[str, str], ...] = ()
    unasked: int = 0
    retired: int = 0
    alike: int = 0


class Curated(NamedTuple):
    """What is to be stored of a batch.

    Attributes:
        rows: New lessons, and stored ones that further runs taught.
        told: Ids of all lessons that the batch taught, changed or not, each with its runs of the batch.
        merged: Lessons that repeat one of another task; None for those that the store knew.
        dropped: Lessons that repeat another one of their task.
        failed: Why some runs' lessons are undecided, by run; they are tried again.
    """

    rows: tuple[LessonRow, ...]
    told: Mapping[str, Collection[str]]
    merged: int | None = None
    dropped: int = 0
    failed: tuple[tuple[str, str], ...] = ()


Curate: TypeAlias = Callable[[Sequence[Distilled]], Curated]
"""Looks at the lessons of a batch before they are stored."""

Progress: TypeAlias = Callable[[DistilReport], object]


def distill_into(
    library: Library,
    distiller: Distiller,
    *,
    namespace: str,
    again: bool = False,
    runs: Sequence[str] | None = None,
    curate: Curate | None = None,
    on_progress: Progress | None = None,
) -> DistilReport:
    """Distil what a distiller has not seen, and store it batch by batch.

    Interrupted, it goes on where it stopped: a run is marked after its lessons are stored, and lessons of equal words
    are one.

    Args:
        again: Looks at every run anew: with more runs to compare, a run may teach something else than before. It then
            no longer stands behind what it taught before, and a lesson that none does is retired.
        runs: Looks anew at the tasks of these runs alone (see `Library.tasks_of`); None for all tasks.
        on_progress: Called with the report so far after each batch.
    """
    step = f"{distiller.kind}/{distiller.name}"
    report = DistilReport()
    former = _distilled_by(library, distiller, namespace, runs) if again or runs is not None else {}
    seen: set[str] = set()
    told: defaultdict[str, set[str]] = defaultdict(set)
    groups: dict[str, str] = {}
    compared: set[str] = set()
    if runs is None:
        tasks = library.tasks(step, namespace=namespace, again=again)
    else:
        tasks = library.tasks_of(step, runs, namespace=namespace)
    tasks = _noted(tasks, groups, compared)
    for batch in _batches(distiller.distill(tasks)):
        curated = _as_they_are(batch) if curate is None else curate(batch)
        failed = {run for run, _ in curated.failed}
        done = [run for found in batch for run in found.runs if run not in failed]
        report = _store(library, step, batch, curated, {run: groups.get(run, "") for run in done}, report, namespace)
        if on_progress is not None:
            on_progress(report)
        seen.update(done)
        for name, by in curated.told.items():
            told[name].update(by)
    untaught = {name: gone for name, behind in former.items() if (gone := behind & seen - told[name])}
    stale = {name: OUTDATED for name, gone in untaught.items() if gone == former[name]}
    rest = {name: gone for name, gone in untaught.items() if name not in stale}
    if untaught:
        library.change(LessonChange(retire=stale, unlink=rest), namespace=namespace)
    return replace(report, retired=len(stale), alike=len(seen & compared))


def _noted(tasks: Iterable[Task], groups: dict[str, str], compared: set[str]) -> Iterator[Task]:
    """Pass tasks on, and note of wanted runs with similar requests their group, and which were compared."""
    for task in tasks:
        if task.alike:
            groups.update(dict.fromkeys(task.wanted, task.name))
            compared.update(task.wanted if len(task.runs) > 1 else ())
        yield task


def _batches(found: Iterable[Distilled]) -> Iterator[list[Distilled]]:
    batch: list[Distilled] = []
    waiting = 0
    for one in found:
        batch.append(one)
        waiting += len(one.lessons) + len(one.runs)
        if waiting >= _STORED_AT_ONCE:
            yield batch
            batch, waiting = [], 0
    yield batch


def _distilled_by(
    library: Library, distiller: Distiller, namespace: str, runs: Sequence[str] | None
) -> dict[str, set[str]]:
    """Live lessons that a distiller made from some runs' tasks, or from all, each with its runs."""
    if runs is None:
        rows = [one.row for one in library.lessons(namespace).all(distiller.kind)]
    else:
        beside = [run for _, _, run in library.beside(runs, namespace=namespace)]
        rows = library.store.lessons.from_runs(beside, namespace=namespace)
    return {
        row.id: {source.run for source in row.sources}
        for row in rows
        if row.kind == distiller.kind and row.live and not row.made_by
        if row.properties["distilled_by"] == distiller.name
    }


def _as_they_are(batch: Sequence[Distilled]) -> Curated:
    lessons = [lesson for found in batch for lesson in found.lessons]
    told: defaultdict[str, set[str]] = defaultdict(set)
    for lesson in lessons:
        told[lesson.id].update(source.run for source in lesson.sources)
    return Curated(tuple(lesson.row() for lesson in lessons), told)


def _store(
    library: Library,
    step: str,
    batch: Sequence[Distilled],
    curated: Curated,
    done: Mapping[str, str],
    report: DistilReport,
    namespace: str,
) -> DistilReport:
    changed = Changed()
    known = library.lessons(namespace)
    back = {
        name: {source.run for source in stored.row.sources}.difference(runs)
        for name, runs in curated.told.items()
        if (stored := known.get(name)) is not None and stored.row.retired == OUTDATED
    }
    if curated.rows or back:
        change = LessonChange(put=curated.rows, revive=list(back), unlink=back)
        changed = library.change(change, namespace=namespace)
    if done:
        library.mark_done(step, done, namespace=namespace)
    return replace(
        report,
        runs=report.runs + sum(len(found.runs) + len(found.failed) for found in batch),
        new=report.new + len(changed.new),
        merged=report.merged + (len(changed.merged) if curated.merged is None else curated.merged),
        dropped=report.dropped + curated.dropped,
        refused=report.refused + len(changed.refused),
        failed=(*report.failed, *(why for found in batch for why in found.failed), *curated.failed),
        unasked=report.unasked + sum(found.unasked for found in batch),
    )


_log = logging.getLogger("hepm")


class BackgroundDistiller:
    """Distils experiences and principles without a model, from the tasks of the runs it is given.

    Runs that come while others are distilled are distilled together. All runs of their tasks are looked at anew, as
    what a run teaches depends on those it is compared with. Threads may share it.

    Args:
        lessons: Gives what distils, when there is something to do.
    """

    def __init__(self, lessons: Callable[[], tuple[Experiences, Principles]]) -> None:
        self._lessons = lessons
        self._waiting: defaultdict[str, list[str]] = defaultdict(list)
        self._lock = Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="hepm-distil")
        self._working: Future[None] | None = None

    def add(self, run: str, *, namespace: str) -> None:
        """Distil the task of a stored run soon."""
        with self._lock:
            self._waiting[namespace].append(run)
            if self._working is None:
                self._working = self._thread.submit(self._work)

    def wait(self) -> None:
        """Return when the runs that were added are distilled."""
        with self._lock:
            working = self._working
        if working is not None:
            working.result()

    def close(self) -> None:
        """Distil what waits, and end the thread."""
        self._thread.shutdown(wait=True)

    def _work(self) -> None:
        while True:
            with self._lock:
                waiting, self._waiting = self._waiting, defaultdict(list)
                if not waiting:
                    self._working = None
                    return
            for namespace, runs in waiting.items():
                self._distil(runs, namespace)

    @switching_often()
    def _distil(self, runs: list[str], namespace: str) -> None:
        try:
            for kind in self._lessons():
                kind.distill(namespace=namespace, runs=runs)
        except Exception as error:  # nobody waits for this thread: what it does not tell is lost
            _log.warning(
                "%d runs of the namespace %r are not distilled; `hepm experience distill` and `hepm principle distill` "
                "do it later: %s",
                len(runs),
                namespace,
                error,
                exc_info=not isinstance(error, HepmError),
            )
