"""Principles: rules of one sentence, scored by use, found by similarity or by place (EvolveR).

A place is where a run is: the tools just called. For each next tool, principles give the runs for and against it.
"""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import product
from threading import Lock
from typing import Final, NamedTuple, TypeAlias

from hepm.errors import InputError, StoreUnavailableError
from hepm.experience.comparison import place, says_nothing, sides_of
from hepm.experience.distilling import Distiller, DistilReport, Progress, distill_into, distiller_of
from hepm.experience.lessons import FAILS_AFTER, FOLLOWED_BY, Experience, Principle, applies_in
from hepm.experience.library import Library
from hepm.experience.likeness import Likeness, LikeRequests
from hepm.experience.matching import (
    NEAREST,
    SENTENCE_CHARS,
    SIMILARITY,
    TWINS,
    Judge,
    Matcher,
    ModelJudge,
    judge_literally,
)
from hepm.graph.calls import RecentlyUsed
from hepm.graph.lessons.rows import Source, StoredLesson, Uses
from hepm.graph.lessons.transaction import LessonChange
from hepm.graph.tool_life import ToolNames
from hepm.llm import Estimate
from hepm.text import count_of
from hepm.types import DEFAULT_NAMESPACE, START, FailedWay, Suggestions, ToolName

_log = logging.getLogger("hepm")

RETRIEVED: Final = 3
"""k_e: principles given on a search (EvolveR, A.2)."""
EXAMPLES: Final = 2
PRUNED_BELOW: Final = 0.3
"""θ_prune: least score of a principle that stays (EvolveR, A.2)."""
FEWEST_USES: Final = 8
"""Uses before a principle may be pruned; ours.

By the score alone two failures suffice (1 / 4), which of principles that change nothing, in a task that half of the
runs solve, would take 35 % within 30 uses. From eight uses on it takes 13 %, of those that lead to success in two
runs of three 1 %, and still 95 % of those that do so in one of five.
"""
LEAST_RUNS: Final = 2
"""Minimum number of runs behind a principle, if there are such: on recorded runs, those of one run are noise."""

MOST_RUNS: Final = 1_024
"""About as many runs behind principles are compared at one place,"""
FEWEST_RUNS: Final = 4
"""and of each principle so many, its latest."""

_Z: Final = 1.645
_SIDES: Final = ((0, 1), (1, -1))  # for a tool, and against it: how the two numbers of runs are read
_MOST_KEPT: Final = 16_384  # runs behind the places that are kept: their vectors of 512 coordinates take 32 MB

_Move: TypeAlias = tuple[ToolName, ToolName]

Counts: TypeAlias = Callable[[ToolName], tuple[int, int]]


class Advice(NamedTuple):
    """Next tools that a lesson advises, and that it warns of."""

    better: frozenset[ToolName] = frozenset()
    worse: frozenset[ToolName] = frozenset()


class Place:
    """What principles say about the next tool after the tools of the last turn, none before the first call.

    A run behind "calling a rather than b led to success" is for a and against b. Principles about other places are
    ignored. Of more than `MOST_RUNS` runs behind principles a sample stands for all.

    Attributes:
        requests: What users said in these runs; None if it was not read yet.
    """

    def __init__(
        self,
        principles: Collection[Principle],
        after: Sequence[ToolName],
        names: ToolNames = ToolNames(),  # frozen
    ) -> None:
        self._names = names
        self._last = frozenset(map(names.shown, after or (START,)))
        self._where = {place(spelled) for spelled in product(*map(names.spellings, after))}
        self.requests: LikeRequests | None = None
        live = [one for one in principles if self.applies(one)]
        here = [(one, sides) for one in live if any(sides := self.sides(one))]
        # What each says: a tool, and 0 if it is for it, or 1 if against it.
        self._here = [(one, [(tool, at) for at, side in enumerate(sides) for tool in side]) for one, sides in here]
        self._likeness = Likeness()
        # By tool: the runs for it, and those against it, each with how many runs it stands for.
        self._runs: defaultdict[ToolName, tuple[dict[str, float], dict[str, float]]] = defaultdict(lambda: ({}, {}))
        taken = sum(len(one.sources) for one, _ in self._here)
        for one, said in self._here:
            share = max(min(len(one.sources), FEWEST_RUNS), math.ceil(len(one.sources) * MOST_RUNS / max(taken, 1)))
            sources = one.sources[-share:]
            stands_for = dict.fromkeys((source.run for source in sources), len(one.sources) / max(len(sources), 1))
            for tool, side in said:
                known = self._runs[tool][side]
                known.update({run: max(known.get(run, 0.0), number) for run, number in stands_for.items()})

    @property
    def sources(self) -> list[str]:
        """The runs behind what is said about this place; of many a sample."""
        return list(dict.fromkeys(run for sides in self._runs.values() for side in sides for run in side))

    def weighed(self, likeness: Likeness) -> Place:
        """The same place, where runs count by how like their requests are."""
        found = copy(self)
        found._likeness = likeness
        return found

    def sides(self, lesson: Principle | Experience) -> Advice:
        """What a lesson says to call here, and what not; nothing if it is about another place."""
        shown = self._names.shown
        if isinstance(lesson, Experience):
            here = not self._where.isdisjoint(lesson.conditions.preconditions[:1])
            return Advice(*(frozenset(map(shown, side)) for side in sides_of(lesson.lesson, lesson.tools) if here))
        return Advice(
            *(
                frozenset(shown(target) for source, target in _moves(lesson, predicate) if shown(source) in self._last)
                for predicate in (FOLLOWED_BY, FAILS_AFTER)
            )
        )

    def concerns(self, lesson: Experience) -> bool:
        """Whether an experience may be about what comes next: it compares what was called here, or names a last one."""
        if any(sides_of(lesson.lesson, lesson.tools)):
            return any(self.sides(lesson))
        return START in self._last or not self._last.isdisjoint(map(self._names.shown, lesson.tools))

    def applies(self, lesson: Principle | Experience) -> bool:
        """Whether a lesson, here or elsewhere, is about tools that the agent has, and recommends no retired one."""
        tools = named = set(lesson.tools)
        if isinstance(lesson, Principle):
            works = lesson.kind == "guiding"
            tools = {target for _, target in _moves(lesson, FOLLOWED_BY if works else FAILS_AFTER)}
            named = named | tools if works else named
        else:
            works = lesson.zone == "golden"
        own = self._names.own
        if works and any(own(tool) in self._names.retired for tool in named):
            return False
        offered = self._names.offered
        return not (offered and tools) or not offered.isdisjoint(map(own, tools))

    def runs(self, tool: ToolName, *, weighed: bool = True) -> tuple[float, float]:
        """How many runs are for a tool, and how many against it; by their weights, or each as one."""
        weights, unknown, _ = self._likeness if weighed else Likeness()
        right, wrong = (
            sum(weights.get(run, unknown) * number for run, number in side.items())
            for side in self._runs.get(tool, ({}, {}))
        )
        return right, wrong

    def best(self, k: int, *, least_runs: int = LEAST_RUNS) -> list[Principle]:
        """The k principles most surely right (see `lower_bound`), guiding before cautionary ones, then by their runs.

        A principle that adds nothing to those before is skipped. One from fewer than `least_runs` runs is given only if
        one of these had a like request, or if there is no other.
        """
        alike = self._likeness.alike
        runs = {tool: self.runs(tool) for tool in self._runs}
        bounds = {(tool, side): lower_bound(*two[::step]) for tool, two in runs.items() for side, step in _SIDES}
        sound = {(tool, side) for tool, side in bounds if runs[tool][side] > runs[tool][1 - side]}
        kept = [
            (min(bounds[what] for what in said), one, sound.intersection(said))
            for one, said in self._here
            if sound.issuperset(said)
        ]
        kept.sort(key=lambda three: (-three[0], three[1].kind != "guiding", -len(three[1].sources), three[1].text))
        given: list[Principle] = []
        known: set[tuple[ToolName, int]] = set()
        for _, one, said in kept:
            enough = len(one.sources) >= least_runs or any(source.run in alike for source in one.sources)
            if enough and not said <= known:
                given.append(one)
                known |= said
        return given[:k] or [one for _, one, _ in kept][: min(k, 1)]


def in_one_voice(
    here: Place, lessons: Sequence[Principle | Experience], found: Suggestions, counts: Counts
) -> tuple[list[bool], Suggestions]:
    """Make lessons and a suggestion agree: which lessons to keep, and the suggestion with warnings.

    A tool is warned of if more runs, by their weights, are against it than for it: two or more, or one whose lesson is
    among `lessons`. Such a tool is suggested last, with its failures from here if those are the majority: the policy
    knows more of the run than its last tools, and is right about half of them. A lesson is dropped if it advises a tool
    warned of or retired, warns of one that is suggested all the same, or is about tools that the agent lacks.

    `counts` gives the successful and the failed runs that called a tool from here.
    """
    sides = [here.sides(one) for one in lessons]
    named = frozenset[ToolName]().union(*(side.worse for side in sides))
    warned = {one.tool for one in found.warnings}
    failed: list[FailedWay] = []
    for tool in dict.fromkeys((*(one.tool for one in found), *sorted(named))):
        right, wrong = here.runs(tool)
        several = here.runs(tool, weighed=False)[1] >= LEAST_RUNS
        if tool not in warned and wrong > right and (several or tool in named):
            warned.add(tool)
            successes, failures = counts(tool)
            if failures > successes and any(one.tool == tool for one in found):
                failed.append(FailedWay(tool, failures, successes + failures))
    ranked = tuple(sorted(found, key=lambda one: one.tool in warned))
    suggested = {one.tool for one in ranked} - warned
    kept = [
        here.applies(one) and not (side.better & warned or side.worse & suggested)
        for one, side in zip(lessons, sides, strict=True)
    ]
    warnings = sorted((*found.warnings, *failed), key=lambda one: (-one.failures, one.tool))
    return kept, replace(found, ranked=ranked, warnings=tuple(warnings))


def lower_bound(right: float, wrong: float) -> float:
    """Lower end of Wilson's 95 % interval of a share (Wilson 1927): 1 of 1 gives .27, 10 of 10 .79, 10 of 15 .46."""
    if not right:
        return 0.0
    n = right + wrong
    share = right / n
    spread = _Z * math.sqrt(share * (1 - share) / n + _Z * _Z / (4 * n * n))
    return (share + _Z * _Z / (2 * n) - spread) / (1 + _Z * _Z / n)


def places_of(principle: Principle) -> set[ToolName]:
    """Tools after which it says something."""
    return {source for source, _ in (*_moves(principle, FOLLOWED_BY), *_moves(principle, FAILS_AFTER))}


def _moves(principle: Principle, predicate: str) -> Iterator[_Move]:
    for said in principle.triples:
        if said.predicate == predicate:
            yield (said.subject, said.object) if predicate == FOLLOWED_BY else (said.object, said.subject)


class Examples(NamedTuple):
    """Runs behind a principle: the best by reward, and the worst of those with a lower one."""

    best: tuple[Source, ...] = ()
    worst: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class FoundPrinciple:
    """A principle that applies; `similarity` is the cosine with the search text, None without one."""

    id: str
    principle: Principle
    similarity: float | None
    uses: Uses

    @classmethod
    def of(cls, stored: StoredLesson, similarity: float | None = None) -> FoundPrinciple:  # noqa: D102
        return cls(stored.row.id, Principle.of(stored.row), similarity, stored.uses)

    @property
    def score(self) -> float:
        """s(p) = (successes + 1) / (uses + 2), in (0, 1) (EvolveR, equation 2)."""
        return self.uses.score

    @property
    def examples(self) -> Examples:
        """Up to two best and two worst runs behind it; runs without a reward are none."""
        rewarded = [(source.reward, source) for source in self.principle.sources if source.reward is not None]
        best = sorted(rewarded, key=lambda pair: (-pair[0], pair[1].run))[:EXAMPLES]
        worse = sorted(pair for pair in rewarded if pair[0] < best[-1][0])[:EXAMPLES]
        return Examples(tuple(source for _, source in best), tuple(source for _, source in worse))

    @property
    def standing(self) -> str:
        """Its support in words: "from 14 runs, score 0.67 of 4 uses"."""
        known = f"from {count_of(len(self.principle.sources), 'run')}"
        return f"{known}, score {self.score:.2f} of {count_of(self.uses.uses, 'use')}" if self.uses.uses else known


class Principles:
    """The principles of a memory (see `hepm.Memory.principles`)."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def distill(
        self,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        distiller: Distiller | None = None,
        judge: Judge | None = None,
        similarity: float = SIMILARITY,
        again: bool = False,
        runs: Sequence[str] | None = None,
        on_progress: Progress | None = None,
    ) -> DistilReport:
        """Distil the runs that were not distilled yet, and add what is new (see `distill_into` and `matching`).

        Of principles that mean the same, the one stored first stays, and of a batch the one of most runs.

        Args:
            judge: Decides whether two principles mean the same; without a model by default.
            similarity: θ_sim, minimum cosine of the principles that it is asked about.
        """
        chosen = distiller_of("principle", distiller)
        matcher = Matcher(
            self._library, judge or judge_literally, namespace=namespace, similarity=similarity, runs=runs
        )
        return distill_into(
            self._library, chosen, namespace=namespace, again=again, runs=runs, curate=matcher, on_progress=on_progress
        )

    def estimate(
        self,
        judge: ModelJudge,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        distiller: Distiller | None = None,
        again: bool = False,
    ) -> Estimate:
        """What judging would cost in `distill`, at most, with one long sentence per run; nothing is asked or stored."""
        name = distiller_of("principle", distiller).name
        tasks = self._library.tasks(f"principle/{name}", namespace=namespace, again=again)
        new, known = (Principle("guiding", letter * SENTENCE_CHARS, distilled_by="a model") for letter in "ab")
        one = judge.estimate([(new, known)]).usage
        questions = sum(len(task.wanted) for task in tasks) * (NEAREST + TWINS)
        usage = replace(
            one,
            calls=questions,
            input_tokens=one.input_tokens * questions,
            output_tokens=one.output_tokens * questions,
            cost_usd=None if one.cost_usd is None else one.cost_usd * questions,
        )
        return Estimate(usage, paid_before=0)

    def search(
        self,
        text: str,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        environment: str = "",
        k: int = RETRIEVED,
        floor: float | None = None,
    ) -> list[FoundPrinciple]:
        """The k most similar principles, best first, ties by arrival; scores do not order them (EvolveR, 3.2.2).

        Args:
            floor: Minimum cosine; None for the embedder's default. EvolveR has none.
        """
        if k < 1:
            raise InputError(f"k is {k}: ask for at least one principle.")
        found = self._library.search(
            text,
            "principle",
            namespace=namespace,
            environment=environment,
            limit=k,
            floor=floor,
        )
        return [FoundPrinciple.of(stored, cosine) for stored, cosine in found]

    def at(
        self,
        after: Sequence[ToolName],
        *,
        said: str = "",
        namespace: str = DEFAULT_NAMESPACE,
        environment: str = "",
        k: int = RETRIEVED,
        least_runs: int = LEAST_RUNS,
        names: ToolNames | None = None,
    ) -> list[FoundPrinciple]:
        """Principles about the next tool here, the best supported first (see `Place.best`).

        On recorded runs, these are right more often than those whose text is similar (benchmarks/LOG.md, "What lessons
        are worth").

        Args:
            after: Tools of the last turn; none before the first call.
            said: What the user said so far. Runs whose users said the like count most; all count alike without it.
            least_runs: Minimum number of runs behind a principle, if there are such principles.
            names: What the agent calls its tools.
        """
        here = self.place(after, said=said, namespace=namespace, environment=environment, names=names)
        return self.found(here.best(k, least_runs=least_runs), namespace=namespace)

    def found(self, principles: Iterable[Principle], *, namespace: str = DEFAULT_NAMESPACE) -> list[FoundPrinciple]:
        """Stored principles with their uses; those that are gone are left out."""
        known = self._library.lessons(namespace)
        return [FoundPrinciple.of(stored) for one in principles if (stored := known.get(one.id)) is not None]

    def place(
        self,
        after: Sequence[ToolName],
        *,
        said: str = "",
        namespace: str = DEFAULT_NAMESPACE,
        environment: str = "",
        names: ToolNames | None = None,
    ) -> Place:
        """All that principles say about the next tool here (see `at`).

        While the store does not answer, runs whose requests were not read before count alike.
        """
        names = names or ToolNames.of(self._library.marks(namespace), after, ())
        here = self._library.lessons(namespace).cached(_Places).at(tuple(after), environment, names)
        if not said.strip() or not (sources := here.sources):
            return here
        try:
            here.requests = here.requests or self._library.like_requests(sources, namespace=namespace)
        except StoreUnavailableError as error:
            _log.debug("the requests of runs cannot be read for now: %s", error)
            return here
        return here.weighed(here.requests.likeness(self._library.vectors([said])[0]))

    def prune(
        self,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        below: float = PRUNED_BELOW,
        min_uses: int = FEWEST_USES,
        dry_run: bool = False,
    ) -> list[FoundPrinciple]:
        """Retire principles with a low score after enough uses; worst first, ties by id. `Library.revive` undoes it."""
        low = [
            FoundPrinciple.of(stored)
            for stored in self._library.lessons(namespace).all("principle")
            if stored.uses.uses >= min_uses and stored.uses.score < below
        ]
        if low and not dry_run:
            self._library.change(LessonChange(retire={one.id: "pruned" for one in low}), namespace=namespace)
        return sorted(low, key=lambda one: (one.score, one.id))


class _Places:
    """Principles by the tools after which they say something; places that were asked for are kept."""

    def __init__(self, lessons: Collection[StoredLesson]) -> None:
        self._by_tool: defaultdict[ToolName, list[StoredLesson]] = defaultdict(list)
        for one in lessons:
            if one.row.live and one.row.kind == "principle" and not says_nothing(one.row):
                for tool in places_of(Principle.of(one.row)):
                    self._by_tool[tool].append(one)
        self._known = RecentlyUsed[Hashable, Place](_MOST_KEPT)
        self._lock = Lock()

    def at(self, after: tuple[ToolName, ...], environment: str, names: ToolNames) -> Place:
        other_names = frozenset(names.aliases.items()), frozenset(names.used.items())
        key = after, environment, names.retired, names.offered, other_names
        with self._lock:
            found = self._known.use(key)
        if found is None:
            spellings = [name for tool in after or (START,) for name in names.spellings(tool)]
            rows = {one.row.id: one.row for tool in spellings for one in self._by_tool.get(tool, ())}
            found = Place([Principle.of(row) for row in rows.values() if applies_in(row, environment)], after, names)
            with self._lock:
                self._known.put(key, found, len(found.sources))
        return found
