"""Do runs that a lesson was not made from support it? Where it held, those that heeded it against the others.

A rule that many runs teach, and what calls need, which is learned from all of the latest runs at once, leave none. So
each half of the runs is also asked about what the other half teaches by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Final, TypeAlias

from hepm.evidence.rules import lower_bound
from hepm.experience.advice import Advice, AdviceHere
from hepm.experience.arguments import RIGHT_FROM
from hepm.experience.claims import did_before, done_in, followed, known_by_move, origin_held
from hepm.experience.content import content_by_project
from hepm.experience.lesson_bank import LessonBank
from hepm.experience.lessons import COMES_FROM, FAILS, NEEDS, REPLACED_BY, SOLVED_BY, Experience, Principle
from hepm.experience.run_steps import Step, steps_of_run
from hepm.experience.transcript import moves_of
from hepm.graph.lessons.rows import Triple
from hepm.types import ToolName, Trajectory

Lesson = Principle | Experience
_AdviceAfter: TypeAlias = Callable[[tuple[ToolName, ...]], Mapping[str, Advice]]

FEWEST_RUNS: Final = 3
"""Held-out runs that heeded a lesson, and that did not, below which nothing is said."""
MOST_RUNS: Final = 4_000
"""The latest labelled runs, which are asked."""

_READ_AT_ONCE: Final = 200


@dataclass(slots=True)
class HeldOutRuns:
    """Labelled runs that a lesson does not need, in which its condition held: those that heeded it, and the others.

    A run heeded it that called what it advises, or, of a lesson that only warns, anything else than what it warns of.
    Where a lesson names both, a run that called neither says nothing. A run counts once, by the first time that the
    condition held and it decided.
    """

    heeded: int = 0
    heeded_successes: int = 0
    others: int = 0
    others_successes: int = 0

    @property
    def enough(self) -> bool:
        """Whether there are `FEWEST_RUNS` of each."""
        return min(self.heeded, self.others) >= FEWEST_RUNS

    @property
    def supports(self) -> bool:
        """Whether runs that heeded the lesson surely succeeded more often, as prompts ask of it (`lower_bound`)."""
        sure = lower_bound(self.heeded_successes, self.heeded - self.heeded_successes)
        return self.enough and sure > self.others_successes / self.others

    def count(self, *, heeded: bool, success: bool) -> None:
        """Count one run."""
        if heeded:
            self.heeded += 1
            self.heeded_successes += success
        else:
            self.others += 1
            self.others_successes += success


def support_of(lessons: Mapping[str, Lesson], runs: Iterator[Trajectory]) -> dict[str, HeldOutRuns]:
    """For each lesson, by id, what the runs say without which it would be known, too.

    These are all that are not behind it; and of a lesson that runs of both halves teach, all of them.

    Args:
        runs: Those without a label are passed over.
    """
    behind: dict[str, set[str]] = {}
    support: dict[str, HeldOutRuns] = {}
    for id, lesson in lessons.items():
        behind[id] = _needed(lesson)
        support[id] = HeldOutRuns()
    advised = lru_cache(partial(_advice_after, lessons))
    for run in runs:
        # The store's label: `bank.runs` grades rewards by its threshold.
        success = run.outcome.success
        if success is None or not run.trusted:
            continue
        for id, heeded in _heeded(run, lessons, advised).items():
            if run.id not in behind[id]:
                support[id].count(heeded=heeded, success=success)
    return support


def _needed(lesson: Lesson) -> set[str]:
    """The runs behind a lesson; none if each half of all runs teaches it without the other."""
    behind = {source.run for source in lesson.sources}
    halves = set(map(_half, behind))
    if len(halves) > 1:
        return set()
    return behind


def _half(run: str) -> int:
    # Not a checksum: of names that end in a number, its halves would follow the number.
    return blake2b(run.encode("utf-8", "surrogatepass"), digest_size=1).digest()[0] % 2


def support_of_content(lessons: Mapping[str, Principle], runs: Sequence[Trajectory]) -> dict[str, HeldOutRuns]:
    """For each lesson about what calls need, by id, what half of the runs says of it that did not teach it."""
    support = {id: HeldOutRuns() for id in lessons}
    halves: tuple[list[Trajectory], list[Trajectory]] = ([], [])
    for run in runs:
        if run.outcome.success is not None and run.trusted:
            halves[_half(run.id)].append(run)
    # Both ways: what the first half teaches, the second one judges, and the other way round.
    for teachers, others in (halves, reversed(halves)):
        taught = {principle.id for principle in content_by_project(teachers)}
        for id in taught & lessons.keys():
            for run in others:
                heeded = heeds_content(run, lessons[id])
                if heeded is not None:
                    support[id].count(heeded=heeded, success=run.outcome.success is True)
    return support


def heeds_content(run: Trajectory, lesson: Principle) -> bool | None:
    """Whether a run did what a lesson says that calls need; None if it made no such call, or met no such error."""
    environments = lesson.conditions.environments
    if environments and run.environment not in environments:
        return None
    labelled = steps_of_run(run)
    steps = labelled.steps if labelled is not None else ()
    answers = {_heeds_triple(run, steps, triple) for triple in lesson.triples} - {None}
    if not answers:
        return None
    return False not in answers


def _heeds_triple(run: Trajectory, steps: Sequence[Step], triple: Triple) -> bool | None:
    """Whether a run did what one triple says; None if the triple is not about this run."""
    subject, predicate, object = triple
    if predicate == COMES_FROM:
        tried = origin_held(run, subject, object)
        return tried[True] >= RIGHT_FROM * tried.total() if tried else None
    if predicate == NEEDS:
        return did_before(steps, subject, object)
    if predicate == SOLVED_BY:
        return followed(steps, subject, object)
    done = done_in(steps)
    did_instead = set(object.split(", then ")) <= done
    # Of a change that has something instead, a run that did neither says nothing.
    if predicate == FAILS or (predicate == REPLACED_BY and (subject in done or did_instead)):
        return subject not in done
    return None


def _advice_after(lessons: Mapping[str, Lesson], tools: tuple[ToolName, ...]) -> dict[str, Advice]:
    """The advice of each lesson that says something after some tools, by id."""
    here = AdviceHere(tools)
    found = {id: here.advice_of(lesson) for id, lesson in lessons.items()}
    return {id: advice for id, advice in found.items() if any(advice)}


def _heeded(run: Trajectory, lessons: Mapping[str, Lesson], advised: _AdviceAfter) -> dict[str, bool]:
    """Whether the run heeded each lesson whose condition held in it, the first time that it decided."""
    heeded: dict[str, bool] = {}
    for move, known in known_by_move(moves_of(run), run.user):
        for id, (better, worse) in advised(move.before).items():
            when = lessons[id].conditions
            if id in heeded or not when.holds(known, move.before, environment=run.environment, user=run.user):
                continue
            did = not better.isdisjoint(move.tools)
            did_worse = not worse.isdisjoint(move.tools)
            if not worse:
                heeded[id] = did
            elif not better:
                heeded[id] = not did_worse
            elif did is not did_worse:
                heeded[id] = did
            # Else the run called neither, or both in one turn: the next time may tell.
    return heeded


def latest_labelled(bank: LessonBank, *, namespace: str) -> Iterator[Trajectory]:
    """The latest `MOST_RUNS` labelled runs, some at a time."""
    latest = bank.store.latest_runs(namespace=namespace, before=2**62, most=MOST_RUNS)
    for start in range(0, len(latest), _READ_AT_ONCE):
        yield from bank.runs([run.id for run in latest[start : start + _READ_AT_ONCE]], namespace=namespace)
