"""Distill lessons from stored runs, task by task; without a model by counting alone (PRIME 3.2, EvolveR 3.2.1)."""

from __future__ import annotations

import logging
import math
import re
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias, TypeVar

from hepm.errors import HepmError, InputError
from hepm.experience.comparison import RunComparison, compare_runs, lesson_of, place
from hepm.experience.credit import BY_REWARD_TO_GO, CreditMethod
from hepm.experience.lessons import EXTRACTIVE, FAILS_AFTER, FOLLOWED_BY, Experience, Principle, is_content
from hepm.experience.library import Library, TaskRuns
from hepm.experience.occasions import Occasions, Told
from hepm.experience.transcript import (
    ENVIRONMENT_CHARS,
    Move,
    Tools,
    listed,
    plain,
    sequence,
    situation_text,
    went_wrong,
)
from hepm.experience.zones import reward_of, zone_of
from hepm.graph.lessons.rows import Kind, LessonRow, Source, Triple
from hepm.graph.lessons.transaction import Changed, LessonChange
from hepm.graph.mirror.mirror import switching_often
from hepm.text import CUT
from hepm.types import START, ToolName, Trajectory

if TYPE_CHECKING:
    from hepm.experience.experiences import Experiences
    from hepm.experience.principles import Principles

_log = logging.getLogger("hepm")

_NAMED_ARGUMENTS: Final = 8
_TRIPLES: Final = 6

_ARGUMENT_NAME: Final = re.compile(r"[A-Za-z_][\w.-]{0,39}")
_STORED_AT_ONCE: Final = 256
_CONTENT_PAUSE: Final = 20  # times what the last learning took

OUTDATED: Final = "outdated"
"""Why a lesson is retired that its runs no longer teach. It is revived if they teach it again."""


class Distilled(NamedTuple):
    """What some runs taught; why others failed, by run; and how many were left out as the budget was spent."""

    lessons: tuple[Experience | Principle, ...]
    runs: tuple[str, ...]
    failed: tuple[tuple[str, str], ...] = ()
    unasked: int = 0


class Distiller(Protocol):
    """Makes lessons of one kind from the runs of tasks. Its name is "extractive", or that of a model."""

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def kind(self) -> Kind: ...  # noqa: D102

    def distill(self, tasks: Iterable[TaskRuns]) -> Iterator[Distilled]:
        """What the wanted runs of the tasks taught, as it comes."""
        ...


class ExtractiveDistiller:
    """Distills without a model; `methods` say how turns are credited, by environment.

    With `occasions`, a lesson says under which conditions it holds.
    """

    name = EXTRACTIVE

    def __init__(
        self,
        kind: Kind,
        *,
        methods: Mapping[str, CreditMethod] = BY_REWARD_TO_GO,
        occasions: Occasions | None = None,
    ) -> None:
        self.kind: Kind = kind
        self._methods = methods
        self._occasions = occasions

    def with_occasions(self, occasions: Occasions | None) -> ExtractiveDistiller:
        """The same distiller, which tells conditions."""
        return ExtractiveDistiller(self.kind, methods=self._methods, occasions=occasions)

    def distill(self, tasks: Iterable[TaskRuns]) -> Iterator[Distilled]:
        """See `Distiller`."""
        for task in tasks:
            made: Sequence[Experience | Principle]
            if self.kind == "experience":
                made = distill(task.runs, methods=self._methods, alike=task.alike, occasions=self._occasions)
            else:
                made = distill_principles(task.runs, alike=task.alike, occasions=self._occasions)
            kept = [lesson for lesson in made if any(source.run in task.wanted for source in lesson.sources)]
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
class DistillReport:
    """What came of distilling some runs.

    Attributes:
        merged: Lessons that were known, or taught by another task, and now have further runs.
        dropped: Lessons that repeat another one of their task.
        refused: Lessons whose run was forgotten meanwhile.
        failed: Why runs taught nothing, by run; they are tried again next time.
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
    """What to store of a batch (see `DistillReport`), and its runs by the lesson they taught, changed or not."""

    rows: tuple[LessonRow, ...]
    taught: Mapping[str, Collection[str]]
    merged: int | None = None
    dropped: int = 0
    failed: tuple[tuple[str, str], ...] = ()


Curate: TypeAlias = Callable[[Sequence[Distilled]], Curated]
Progress: TypeAlias = Callable[[DistillReport], object]


def distill_into(
    library: Library,
    distiller: Distiller,
    *,
    namespace: str,
    again: bool = False,
    runs: Sequence[str] | None = None,
    curate: Curate | None = None,
    on_progress: Progress | None = None,
) -> DistillReport:
    """Distill the runs that a distiller has not seen, and store their lessons batch by batch.

    A run is marked after its lessons are stored, so the next call continues an interrupted one.

    Args:
        again: Process every run again: with more runs to compare, it may teach something else. It then no longer stands
            behind what it taught before, and a lesson without runs is retired.
        runs: Process only the tasks of these runs, and all of these again (see `Library.tasks_of`).
        on_progress: Called with the report so far after each batch.
    """
    if isinstance(distiller, ExtractiveDistiller):
        distiller = distiller.with_occasions(library.occasions(namespace))
    step = f"{distiller.kind}/{distiller.name}"
    report = DistillReport()
    former = _former(library, distiller, namespace) if again and runs is None else {}
    seen: set[str] = set()
    taught: defaultdict[str, set[str]] = defaultdict(set)
    groups: dict[str, str] = {}
    compared: set[str] = set()

    def tasks() -> Iterator[TaskRuns]:
        every = library.tasks(step, namespace=namespace, again=again)
        for task in every if runs is None else library.tasks_of(step, runs, namespace=namespace):
            if task.alike:
                groups.update(dict.fromkeys(task.wanted, task.name))
                compared.update(task.wanted if len(task.runs) > 1 else ())
            yield task

    for batch in _batches(distiller.distill(tasks())):
        curated = (curate or _as_distilled)(batch)
        undecided = dict(curated.failed)
        done = {run: groups.get(run, "") for found in batch for run in found.runs if run not in undecided}
        known = library.lessons(namespace)
        back = {
            name: {source.run for source in stored.row.sources}.difference(by)
            for name, by in curated.taught.items()
            if (stored := known.get(name)) is not None and stored.row.retired == OUTDATED
        }
        changed = Changed()
        if curated.rows or back:
            change = LessonChange(put=curated.rows, revive=list(back), unlink=back)
            changed = library.change(change, namespace=namespace)
        if done:
            library.mark_done(step, done, namespace=namespace)
        report = replace(
            report,
            runs=report.runs + sum(len(found.runs) + len(found.failed) for found in batch),
            new=report.new + len(changed.new),
            merged=report.merged + (len(changed.merged) if curated.merged is None else curated.merged),
            dropped=report.dropped + curated.dropped,
            refused=report.refused + len(changed.refused),
            failed=(*report.failed, *(why for found in batch for why in found.failed), *curated.failed),
            unasked=report.unasked + sum(found.unasked for found in batch),
        )
        if on_progress is not None:
            on_progress(report)
        seen.update(done)
        for name, by in curated.taught.items():
            taught[name].update(by)
    if runs is not None:  # with them all runs of like requests were distilled again
        former = _former(library, distiller, namespace, sorted(seen))
    stale = _unlink_untaught(library, namespace, former, seen, taught)
    return replace(report, retired=stale, alike=len(seen & compared))


def _as_distilled(batch: Sequence[Distilled]) -> Curated:
    lessons = [lesson for found in batch for lesson in found.lessons]
    behind: defaultdict[str, set[str]] = defaultdict(set)
    for one in lessons:
        behind[one.id].update(source.run for source in one.sources)
    return Curated(tuple(one.row() for one in lessons), behind)


def _unlink_untaught(
    library: Library,
    namespace: str,
    former: Mapping[str, Collection[str]],
    seen: set[str],
    taught: Mapping[str, Collection[str]],
) -> int:
    """Unlink runs from lessons that they no longer teach; returns how many lessons are retired without any run."""
    untaught = {name: gone for name, by in former.items() if (gone := set(by) & seen - set(taught.get(name, ())))}
    stale = {name: OUTDATED for name, gone in untaught.items() if gone == set(former[name])}
    if untaught:
        rest = {name: gone for name, gone in untaught.items() if name not in stale}
        library.change(LessonChange(retire=stale, unlink=rest), namespace=namespace)
    return len(stale)


def _batches(found: Iterable[Distilled]) -> Iterator[list[Distilled]]:
    batch: list[Distilled] = []
    for one in found:
        batch.append(one)
        if sum(len(each.lessons) + len(each.runs) for each in batch) >= _STORED_AT_ONCE:
            yield batch
            batch = []
    yield batch


def _former(
    library: Library, distiller: Distiller, namespace: str, runs: Sequence[str] | None = None
) -> dict[str, set[str]]:
    """Live lessons that a distiller made from some runs, or from all, each with its runs."""
    if runs is None:
        rows = [one.row for one in library.lessons(namespace).all(distiller.kind)]
    else:
        rows = library.store.lessons.from_runs(runs, namespace=namespace)
    return {
        row.id: {source.run for source in row.sources}
        for row in rows
        if row.kind == distiller.kind and row.live and not row.made_by
        if row.properties["distilled_by"] == distiller.name and not (distiller.name == EXTRACTIVE and is_content(row))
    }


class BackgroundDistiller:
    """Distills experiences and principles without a model on a thread, from the tasks of the runs it is given.

    Runs that come while others are distilled are distilled together. Threads may share it.
    """

    def __init__(self, lessons: Callable[[], tuple[Experiences, Principles]]) -> None:
        self._lessons = lessons
        self._waiting: defaultdict[str, list[str]] = defaultdict(list)
        self._lock = Lock()
        self._learned: dict[str, tuple[float, float]] = {}  # by namespace: when what calls need was learned, how long
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="hepm-distill")
        self._last: Future[None] | None = None

    def add(self, run: str, *, namespace: str) -> None:
        """Distill the task of a stored run soon."""
        with self._lock:
            self._waiting[namespace].append(run)
            self._last = self._thread.submit(self._distill)

    def wait(self) -> None:
        """Return when the runs that were added are distilled."""
        if self._last is not None:
            self._last.result()

    def close(self) -> None:
        """Distill what waits, and end the thread."""
        self._thread.shutdown(wait=True)

    @switching_often()
    def _distill(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, defaultdict(list)
        for namespace, runs in waiting.items():
            try:
                experiences, principles = self._lessons()
                experiences.distill(namespace=namespace, runs=runs)
                principles.distill(namespace=namespace, runs=runs)
                self._learn_content(principles, namespace)
            except Exception as error:  # no caller waits for this thread: what it does not log is lost
                _log.warning(
                    "%d runs of the namespace %r are not distilled; `hepm lesson distill` does it later: %s",
                    len(runs),
                    namespace,
                    error,
                    exc_info=not isinstance(error, HepmError),
                )

    def _learn_content(self, principles: Principles, namespace: str) -> None:
        """Learn what calls need, in at most a twentieth of the time: it looks at hundreds of runs, not at one task."""
        ended, seconds = self._learned.get(namespace, (-math.inf, 0.0))
        if time.monotonic() - ended >= _CONTENT_PAUSE * seconds:
            report = principles.learn_content(namespace=namespace)
            self._learned[namespace] = time.monotonic(), report.seconds


# Without a model: what happened in a run, not why


def distill(
    runs: Sequence[Trajectory],
    *,
    methods: Mapping[str, CreditMethod] = BY_REWARD_TO_GO,
    alike: bool = False,
    occasions: Occasions | None = None,
) -> list[Experience]:
    """What each labelled run of one task taught; equal words make one experience. See `compare_runs`."""
    return _merged(_experience(one, occasions) for one in compare_runs(runs, methods, alike=alike))


def distill_principles(
    runs: Sequence[Trajectory], *, alike: bool = False, occasions: Occasions | None = None
) -> list[Principle]:
    """The rules that runs of one task teach; equal sentences make one with several sources.

    A success gives where it left the failed runs, or the way it took; a failure where it left the successful runs, or
    what failed last.
    """
    return _merged(found for one in compare_runs(runs, alike=alike) if (found := _principle(one, occasions)))


def _occasion_of(it: RunComparison, occasions: Occasions | None) -> Told:
    """When what sets a run apart is right, with the counts; as far as that is known."""
    contrast = it.contrast
    if occasions is None or contrast is None or not contrast.decides:
        return Told(it.conditions)
    told = occasions.told(contrast.after, right=Tools(contrast.better), wrong=Tools(contrast.worse))
    # That it is for one user is found anew each time, and not stored: who forgets the user's runs forgets it.
    if not told.reliable or told.conditions.user:
        return Told(it.conditions)
    found = told.conditions.without_users
    return told._replace(conditions=replace(it.conditions, after=found.after, says=found.says, facts=found.facts))


def _experience(it: RunComparison, occasions: Occasions | None) -> Experience:
    told = _occasion_of(it, occasions)
    end = "It succeeded" if it.well else "It failed"
    reward = "" if it.run.outcome.reward is None else f", with reward {it.reward:g}"
    # Not what errors said: others may write there, and who lets a page begin with "Error: " would be quoted in nearly
    # every prompt (benchmarks/LOG.md, "Poisoned memory").
    wrong = dict.fromkeys(call.name for move in it.moves for call in move.calls if went_wrong(call))
    errors = f"Calls of {listed(wrong)} failed." if wrong else "No call failed." if it.moves else "No tool was called."
    way = sequence(move.tools for move in it.moves) or "no tool"
    if it.contrast and (it.contrast.decides or (it.contrast.same and not it.well)):
        lesson = lesson_of(it.contrast, succeeded=it.well)
    elif it.well:
        lesson = f"This way led to success: {way}."
    else:
        lesson = f"This way led to failure: {way}."
    called = ", then ".join(_calls(move) for move in sorted(it.keys, key=lambda move: move.turn))
    return Experience(
        situation=situation_text(it.run.environment, it.known),
        action=f"Called {called}." if called else "Called no tool.",
        outcome=f"{end}{reward}. {errors}",
        lesson=lesson,
        zone=zone_of(it.reward, succeeded=it.well),
        stage=it.stage,
        reward=it.reward,
        conditions=told.conditions,
        sources=(Source(it.run.id, it.run.outcome.reward),),
        tools=it.tools,
        tried=told.tried,
        worked=told.worked,
    )


def _calls(move: Move) -> str:
    """The tools that were called with their argument names, never the values."""
    shown: list[str] = []
    for call in move.calls:
        names = [name if _ARGUMENT_NAME.fullmatch(name) else CUT for name in call.arguments]
        more = [CUT] if len(names) > _NAMED_ARGUMENTS else []
        shown.append(f"{listed([call.name])}({', '.join([*names[:_NAMED_ARGUMENTS], *more])})")
    times = {text: shown.count(text) for text in shown}
    texts = [text if count == 1 else f"{text} {count} times" for text, count in times.items()]
    return " and ".join(texts[:4]) + (f" and {CUT}" if len(texts) > 4 else "")


def _principle(it: RunComparison, occasions: Occasions | None) -> Principle | None:
    # A rule that names a way, or an error, is not about what the runs did instead of ending.
    told = _occasion_of(it, occasions) if it.contrast and it.contrast.opposes else Told(it.conditions)
    rule = _rule(it)
    if rule is None:
        return None
    text, triples, tools = rule
    environment = it.run.environment
    where = f"in {plain(environment, ENVIRONMENT_CHARS)}, " if environment else ""
    sentence = f"{where}{text}."
    return Principle(
        kind="guiding" if it.well else "cautionary",
        text=sentence[0].upper() + sentence[1:],
        triples=tuple(triples),
        sources=(Source(it.run.id, it.run.outcome.reward, words=False),),
        tools=tuple(dict.fromkeys(tools)),
        conditions=told.conditions,
        tried=told.tried,
        worked=told.worked,
    )


def _rule(it: RunComparison) -> tuple[str, Sequence[Triple], Sequence[ToolName]] | None:
    """What a run teaches as a rule, to follow the name of an environment; None if nothing sets it apart."""
    if it.contrast and it.contrast.opposes:
        better, worse = listed(it.contrast.better), listed(it.contrast.worse)
        rule = f"calling {worse} rather than {better} ended in failure"
        if it.well:
            rule = f"calling {better} rather than {worse} led to success"
        before = it.contrast.after or (START,)
        good = [Triple(source, FOLLOWED_BY, tool) for tool in it.contrast.better for source in before]
        bad = [Triple(tool, FAILS_AFTER, source) for tool in it.contrast.worse for source in before]
        half = _TRIPLES // 2
        return f"{place(it.contrast.after)}, {rule}", [*good[:half], *bad[:half]], it.contrast.tools
    if it.well and it.moves:
        # The end of the run, as whole runs are hardly ever equal.
        way = [move.tools for move in it.moves]
        steps = [tools for tools, before in zip(way, [None, *way], strict=False) if tools != before][-3:]
        triples = [
            Triple(a, FOLLOWED_BY, b) for one, other in pairwise(steps) for a in sorted(one) for b in sorted(other)
        ]
        return (
            f"calling {sequence(steps)} led to success",
            triples[:_TRIPLES],
            [tool for step in steps for tool in sorted(step)],
        )
    last = it.moves[-1] if it.moves else None
    wrong = sorted({call.name for call in last.calls if went_wrong(call)}) if last else []
    if it.well or last is None or not wrong or it.contrast:
        return None
    before = sorted(last.before)
    triples = [Triple(tool, FAILS_AFTER, source) for tool in wrong for source in before]
    rule = f"{place(before)}, {listed(wrong)} gave an error and the run ended in failure"
    return rule, triples[:_TRIPLES], wrong + before


_Lesson = TypeVar("_Lesson", Experience, Principle)


def _merged(lessons: Iterable[_Lesson]) -> list[_Lesson]:
    """Merge lessons of equal words: the words are the first run's."""
    found: dict[str, _Lesson] = {}
    for lesson in lessons:
        first = found.get(lesson.id)
        more = tuple(source._replace(words=False) for source in lesson.sources)
        found[lesson.id] = replace(first, sources=(*first.sources, *more)) if first else lesson
    return list(found.values())
