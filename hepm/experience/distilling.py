"""Distill lessons from stored runs, task by task; without a model by counting alone (PRIME 3.2, EvolveR 3.2.1)."""

from __future__ import annotations

import logging
import math
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias, TypeVar

from hepm.errors import HepmError, InputError
from hepm.experience.comparison import Contrast, RunComparison, compare_runs, lesson_of, place_in_words
from hepm.experience.credit import BY_REWARD_TO_GO, CreditMethod
from hepm.experience.lesson_bank import LessonBank, TaskRuns
from hepm.experience.lessons import EXTRACTIVE, FAILS_AFTER, FOLLOWED_BY, Experience, Principle, is_content
from hepm.experience.occasions import OccasionEvidence, Occasions
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

_NAMED_ARGUMENTS: Final = 8  # of one call
_NAMED_CALLS: Final = 4  # of one turn
_TRIPLES: Final = 6
_STEPS_OF_WAY: Final = 3

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
        """The same distiller, whose lessons have conditions."""
        return ExtractiveDistiller(self.kind, methods=self._methods, occasions=occasions)

    def distill(self, tasks: Iterable[TaskRuns]) -> Iterator[Distilled]:
        """See `Distiller`."""
        for task in tasks:
            lessons: Sequence[Experience | Principle]
            if self.kind == "experience":
                lessons = distill(task.runs, methods=self._methods, alike=task.alike, occasions=self._occasions)
            else:
                lessons = distill_principles(task.runs, alike=task.alike, occasions=self._occasions)
            taught: list[Experience | Principle] = []
            for lesson in lessons:
                if any(source.run in task.wanted for source in lesson.sources):
                    taught.append(lesson)
            # A run without a label waits for it.
            seen = [run.id for run in task.runs if run.id in task.wanted and reward_of(run.outcome) is not None]
            yield Distilled(tuple(taught), tuple(seen))


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
    bank: LessonBank,
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
        runs: Process only the tasks of these runs, and all of these again (see `LessonBank.tasks_of`).
        on_progress: Called with the report so far after each batch.
    """
    if isinstance(distiller, ExtractiveDistiller):
        distiller = distiller.with_occasions(bank.occasions(namespace))
    return _Distillation(bank, distiller, namespace, curate or _as_distilled).run(again, runs, on_progress)


class _Distillation:
    """One call of `distill_into`: distills tasks, stores batches, and unlinks what runs no longer teach."""

    def __init__(self, bank: LessonBank, distiller: Distiller, namespace: str, curate: Curate) -> None:
        self._bank = bank
        self._distiller = distiller
        self._namespace = namespace
        self._curate = curate
        self._step = f"{distiller.kind}/{distiller.name}"
        self._report = DistillReport()
        self._seen: set[str] = set()
        self._taught: defaultdict[str, set[str]] = defaultdict(set)  # runs by lesson
        self._groups: dict[str, str] = {}  # of similar requests, by run
        self._compared: set[str] = set()  # runs that such a group has others for

    def run(self, again: bool, runs: Sequence[str] | None, on_progress: Progress | None) -> DistillReport:
        former: dict[str, set[str]] = {}
        if again and runs is None:
            former = _former(self._bank, self._distiller, self._namespace)
        for batch in _batches(self._distiller.distill(self._tasks(again, runs))):
            self._store(batch)
            if on_progress is not None:
                on_progress(self._report)
        if runs is not None:  # with them all runs of like requests were distilled again
            former = _former(self._bank, self._distiller, self._namespace, sorted(self._seen))
        retired = _unlink_untaught(self._bank, self._namespace, former, self._seen, self._taught)
        return replace(self._report, retired=retired, alike=len(self._seen & self._compared))

    def _tasks(self, again: bool, runs: Sequence[str] | None) -> Iterator[TaskRuns]:
        if runs is None:
            tasks = self._bank.tasks(self._step, namespace=self._namespace, again=again)
        else:
            tasks = self._bank.tasks_of(self._step, runs, namespace=self._namespace)
        for task in tasks:
            if task.alike:
                self._groups.update(dict.fromkeys(task.wanted, task.name))
                if len(task.runs) > 1:
                    self._compared.update(task.wanted)
            yield task

    def _store(self, batch: Sequence[Distilled]) -> None:
        """Store the lessons of a batch, then mark its runs as seen."""
        curated = self._curate(batch)
        changed = self._change_lessons(curated)
        done = self._decided_runs(batch, curated)
        if done:
            self._bank.mark_done(self._step, done, namespace=self._namespace)
        self._report = _with_batch(self._report, batch, curated, changed)
        self._seen.update(done)
        for lesson, runs in curated.taught.items():
            self._taught[lesson].update(runs)

    def _decided_runs(self, batch: Sequence[Distilled], curated: Curated) -> dict[str, str]:
        """The runs that the step has now seen, each with its group of similar requests, "" for none."""
        undecided = dict(curated.failed)
        decided: dict[str, str] = {}
        for distilled in batch:
            for run in distilled.runs:
                if run not in undecided:
                    decided[run] = self._groups.get(run, "")
        return decided

    def _change_lessons(self, curated: Curated) -> Changed:
        """Put the lessons, and revive those that are taught again, without the runs that taught them before."""
        lessons = self._bank.lessons(self._namespace)
        revived: dict[str, set[str]] = {}
        for lesson, runs in curated.taught.items():
            stored = lessons.get(lesson)
            if stored is not None and stored.row.retired == OUTDATED:
                revived[lesson] = {source.run for source in stored.row.sources}.difference(runs)
        if not curated.rows and not revived:
            return Changed()
        change = LessonChange(put=curated.rows, revive=list(revived), unlink=revived)
        return self._bank.change(change, namespace=self._namespace)


def _with_batch(report: DistillReport, batch: Sequence[Distilled], curated: Curated, changed: Changed) -> DistillReport:
    """The report with one more batch."""
    failed: list[tuple[str, str]] = []
    runs = unasked = 0
    for distilled in batch:
        failed += distilled.failed
        runs += len(distilled.runs) + len(distilled.failed)
        unasked += distilled.unasked
    merged = curated.merged if curated.merged is not None else len(changed.merged)
    return replace(
        report,
        runs=report.runs + runs,
        new=report.new + len(changed.new),
        merged=report.merged + merged,
        dropped=report.dropped + curated.dropped,
        refused=report.refused + len(changed.refused),
        failed=(*report.failed, *failed, *curated.failed),
        unasked=report.unasked + unasked,
    )


def _as_distilled(batch: Sequence[Distilled]) -> Curated:
    rows: list[LessonRow] = []
    taught: defaultdict[str, set[str]] = defaultdict(set)
    for distilled in batch:
        for lesson in distilled.lessons:
            rows.append(lesson.row())
            taught[lesson.id].update(source.run for source in lesson.sources)
    return Curated(tuple(rows), taught)


def _unlink_untaught(
    bank: LessonBank,
    namespace: str,
    former: Mapping[str, Collection[str]],
    seen: set[str],
    taught: Mapping[str, Collection[str]],
) -> int:
    """Unlink runs from lessons that they no longer teach; returns how many lessons are retired without any run."""
    retire: dict[str, str] = {}
    unlink: dict[str, set[str]] = {}
    for lesson, former_runs in former.items():
        untaught = set(former_runs) & seen - set(taught.get(lesson, ()))
        if not untaught:
            continue
        if untaught == set(former_runs):
            retire[lesson] = OUTDATED
        else:
            unlink[lesson] = untaught
    if retire or unlink:
        bank.change(LessonChange(retire=retire, unlink=unlink), namespace=namespace)
    return len(retire)


def _batches(distilled: Iterable[Distilled]) -> Iterator[list[Distilled]]:
    """Parts of about `_STORED_AT_ONCE` lessons and runs; the last one may be empty."""
    batch: list[Distilled] = []
    size = 0
    for one in distilled:
        batch.append(one)
        size += len(one.lessons) + len(one.runs)
        if size >= _STORED_AT_ONCE:
            yield batch
            batch = []
            size = 0
    yield batch


def _former(
    bank: LessonBank, distiller: Distiller, namespace: str, runs: Sequence[str] | None = None
) -> dict[str, set[str]]:
    """Live lessons that a distiller made from some runs, or from all, each with its runs."""
    if runs is None:
        rows = [stored.row for stored in bank.lessons(namespace).all(distiller.kind)]
    else:
        rows = bank.store.lessons.from_runs(runs, namespace=namespace)
    former: dict[str, set[str]] = {}
    for row in rows:
        if row.kind != distiller.kind or row.properties["distilled_by"] != distiller.name:
            continue
        # What calls need is learned from all of the latest runs at once, and no task teaches it.
        content = distiller.name == EXTRACTIVE and is_content(row)
        if row.live and not row.made_by and not content:
            former[row.id] = {source.run for source in row.sources}
    return former


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
    comparisons = compare_runs(runs, methods, alike=alike)
    return _merged(_experience(comparison, occasions) for comparison in comparisons)


def distill_principles(
    runs: Sequence[Trajectory], *, alike: bool = False, occasions: Occasions | None = None
) -> list[Principle]:
    """The rules that runs of one task teach; equal sentences make one with several sources.

    A success gives where it left the failed runs, or the way it took; a failure where it left the successful runs, or
    what failed last.
    """
    principles = [_principle(comparison, occasions) for comparison in compare_runs(runs, alike=alike)]
    return _merged(principle for principle in principles if principle is not None)


def _evidence_of(comparison: RunComparison, occasions: Occasions | None) -> OccasionEvidence:
    """When what sets a run apart is right, with the counts; as far as that is known."""
    own = comparison.conditions
    contrast = comparison.contrast
    if occasions is None or contrast is None or not contrast.decides:
        return OccasionEvidence(own)
    evidence = occasions.evidence(contrast.after, right=Tools(contrast.better), wrong=Tools(contrast.worse))
    # That it is for one user is found anew each time, and not stored: who forgets the user's runs forgets it.
    if not evidence.reliable or evidence.conditions.user:
        return OccasionEvidence(own)
    counted = evidence.conditions.without_users
    conditions = replace(own, after=counted.after, says=counted.says, facts=counted.facts)
    return evidence._replace(conditions=conditions)


def _experience(comparison: RunComparison, occasions: Occasions | None) -> Experience:
    run = comparison.run
    evidence = _evidence_of(comparison, occasions)
    called = [_calls(move) for move in sorted(comparison.keys, key=lambda move: move.turn)]
    return Experience(
        situation=situation_text(run.environment, comparison.known),
        action=f"Called {', then '.join(called)}." if called else "Called no tool.",
        outcome=_outcome(comparison),
        lesson=_lesson(comparison),
        zone=zone_of(comparison.reward, succeeded=comparison.well),
        stage=comparison.stage,
        reward=comparison.reward,
        conditions=evidence.conditions,
        sources=(Source(run.id, run.outcome.reward),),
        tools=comparison.tools,
        tried=evidence.tried,
        worked=evidence.worked,
    )


def _outcome(comparison: RunComparison) -> str:
    """How a run ended: "It failed, with reward 0.2. Calls of search failed."."""
    # Not what errors said: others may write there, and who lets a page begin with "Error: " would be quoted in nearly
    # every prompt (benchmarks/LOG.md, "Poisoned memory").
    failed: dict[ToolName, None] = {}
    for move in comparison.moves:
        failed.update({call.name: None for call in move.calls if went_wrong(call)})
    if failed:
        errors = f"Calls of {listed(failed)} failed."
    elif comparison.moves:
        errors = "No call failed."
    else:
        errors = "No tool was called."
    end = "It succeeded" if comparison.well else "It failed"
    if comparison.run.outcome.reward is not None:
        end += f", with reward {comparison.reward:g}"
    return f"{end}. {errors}"


def _lesson(comparison: RunComparison) -> str:
    """What sets a run apart; the way it took if nothing does."""
    contrast = comparison.contrast
    if contrast and (contrast.decides or (contrast.same and not comparison.well)):
        return lesson_of(contrast, succeeded=comparison.well)
    way = sequence(move.tools for move in comparison.moves) or "no tool"
    end = "success" if comparison.well else "failure"
    return f"This way led to {end}: {way}."


def _calls(move: Move) -> str:
    """The tools that were called with their argument names, never the values."""
    times = Counter[str]()
    for call in move.calls:
        names = [name if _ARGUMENT_NAME.fullmatch(name) else CUT for name in call.arguments]
        if len(names) > _NAMED_ARGUMENTS:
            names = [*names[:_NAMED_ARGUMENTS], CUT]
        times[f"{listed([call.name])}({', '.join(names)})"] += 1
    texts = [text if count == 1 else f"{text} {count} times" for text, count in times.items()]
    if len(texts) > _NAMED_CALLS:
        texts = [*texts[:_NAMED_CALLS], CUT]
    return " and ".join(texts)


class _Rule(NamedTuple):
    """What a run teaches: words to follow the name of an environment, the same as triples, and the tools it names."""

    text: str
    triples: Sequence[Triple]
    tools: Sequence[ToolName]


def _principle(comparison: RunComparison, occasions: Occasions | None) -> Principle | None:
    rule = _rule(comparison)
    if rule is None:
        return None
    if comparison.contrast and comparison.contrast.opposes:
        evidence = _evidence_of(comparison, occasions)
    else:
        # A rule that names a way, or an error, is not about what the runs did instead of ending.
        evidence = OccasionEvidence(comparison.conditions)
    run = comparison.run
    where = f"in {plain(run.environment, ENVIRONMENT_CHARS)}, " if run.environment else ""
    sentence = f"{where}{rule.text}."
    return Principle(
        kind="guiding" if comparison.well else "cautionary",
        text=sentence[0].upper() + sentence[1:],
        triples=tuple(rule.triples),
        sources=(Source(run.id, run.outcome.reward, words=False),),
        tools=tuple(dict.fromkeys(rule.tools)),
        conditions=evidence.conditions,
        tried=evidence.tried,
        worked=evidence.worked,
    )


def _rule(comparison: RunComparison) -> _Rule | None:
    """What a run teaches as a rule; None if nothing sets it apart."""
    contrast = comparison.contrast
    if contrast and contrast.opposes:
        return _rule_of_contrast(contrast, succeeded=comparison.well)
    if not comparison.moves:
        return None
    if comparison.well:
        return _rule_of_way(comparison.moves)
    if contrast:
        return None
    return _rule_of_error(comparison.moves[-1])


def _rule_of_contrast(contrast: Contrast, *, succeeded: bool) -> _Rule:
    better, worse = listed(contrast.better), listed(contrast.worse)
    if succeeded:
        text = f"calling {better} rather than {worse} led to success"
    else:
        text = f"calling {worse} rather than {better} ended in failure"
    before = contrast.after or (START,)
    advises = [Triple(source, FOLLOWED_BY, tool) for tool in contrast.better for source in before]
    warns = [Triple(tool, FAILS_AFTER, source) for tool in contrast.worse for source in before]
    half = _TRIPLES // 2
    return _Rule(f"{place_in_words(contrast.after)}, {text}", [*advises[:half], *warns[:half]], contrast.tools)


def _rule_of_way(moves: Sequence[Move]) -> _Rule:
    """The end of a successful run, as whole runs are hardly ever equal."""
    steps: list[Tools] = []
    for move in moves:
        if not steps or move.tools != steps[-1]:
            steps.append(move.tools)
    steps = steps[-_STEPS_OF_WAY:]
    triples: list[Triple] = []
    tools: list[ToolName] = []
    for step, next_step in pairwise(steps):
        for tool in sorted(step):
            triples += [Triple(tool, FOLLOWED_BY, following) for following in sorted(next_step)]
    for step in steps:
        tools += sorted(step)
    return _Rule(f"calling {sequence(steps)} led to success", triples[:_TRIPLES], tools)


def _rule_of_error(last: Move) -> _Rule | None:
    """What failed last in a failed run; None if its last calls gave no error."""
    failed = sorted({call.name for call in last.calls if went_wrong(call)})
    if not failed:
        return None
    before = sorted(last.before)
    triples = [Triple(tool, FAILS_AFTER, source) for tool in failed for source in before]
    text = f"{place_in_words(before)}, {listed(failed)} gave an error and the run ended in failure"
    return _Rule(text, triples[:_TRIPLES], failed + before)


_Lesson = TypeVar("_Lesson", Experience, Principle)


def _merged(lessons: Iterable[_Lesson]) -> list[_Lesson]:
    """Merge lessons of equal words: the words are the first run's."""
    by_id: dict[str, _Lesson] = {}
    for lesson in lessons:
        first = by_id.get(lesson.id)
        if first is None:
            by_id[lesson.id] = lesson
        else:
            more = tuple(source._replace(words=False) for source in lesson.sources)
            by_id[lesson.id] = replace(first, sources=(*first.sources, *more))
    return list(by_id.values())
