"""Principles: rules of one sentence that runs taught, told once each, scored by use, found by similarity (EvolveR)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from hepm.errors import InputError
from hepm.experience.comparison import says_nothing
from hepm.experience.distilling import Distiller, DistilReport, Progress, distill_into, distiller_of
from hepm.experience.lessons import EXTRACTIVE, Principle, applies_in
from hepm.experience.library import Library
from hepm.experience.matching import (
    NEAREST,
    SENTENCE_CHARS,
    SIMILARITY,
    TWINS,
    Judge,
    LiteralJudge,
    Matcher,
    ModelJudge,
    Pair,
)
from hepm.experience.place import LEAST_RUNS, Contradiction, Place, contradictions_among, places_of
from hepm.graph.lessons.rows import Source, StoredLesson, Uses
from hepm.graph.lessons.transaction import LessonChange
from hepm.graph.score import FEWEST_USES, PRUNED_BELOW
from hepm.llm import Estimate
from hepm.text import count_of
from hepm.types import DEFAULT_NAMESPACE, START, ToolName

RETRIEVED: Final = 3
"""k_e: principles given on a search (EvolveR, A.2)."""
EXAMPLES: Final = 2


class Examples(NamedTuple):
    """Runs behind a principle, to be looked at.

    Attributes:
        best: Those with the highest rewards, best first, ties by id.
        worst: Those with the lowest, worst first; only such as earned less than all of the best.
    """

    best: tuple[Source, ...] = ()
    worst: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class FoundPrinciple:
    """A principle that applies.

    Attributes:
        similarity: Cosine with what was searched for, in [-1, 1]; None where no text was.
        score: s(p) = (successes + 1) / (uses + 2), in (0, 1) (EvolveR, equation 2).
        uses: Where it was shown, and what came of it.
    """

    id: str
    principle: Principle
    similarity: float | None
    score: float
    uses: Uses
    examples: Examples

    @property
    def standing(self) -> str:
        """What stands behind it, in words: "from 14 runs, score 0.67 of 4 uses"."""
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

        By default both steps need no model. A run without a verdict is looked at again next time; what was paid for is
        not paid again. Of principles that mean the same, the one stored first stays, and of a batch the one of most
        runs. The order of runs decides nothing else without a model.

        Args:
            judge: Decides whether two principles mean the same.
            similarity: θ_sim, least cosine of principles that it is asked about.
        """
        chosen = distiller_of("principle", distiller)
        matcher = Matcher(self._library, judge or LiteralJudge(), namespace=namespace, similarity=similarity, runs=runs)
        return distill_into(
            self._library, chosen, namespace=namespace, again=again, runs=runs, curate=matcher, on_progress=on_progress
        )

    def estimate(
        self,
        judge: ModelJudge,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        distiller: Distiller | None = None,
        similarity: float = SIMILARITY,
        again: bool = False,
    ) -> Estimate:
        """What judging would cost in `distill`, at most; nothing is asked or stored.

        With a model as distiller, its principles are not known yet: one long sentence a run is assumed. The distiller's
        own cost is not included.
        """
        chosen = distiller_of("principle", distiller)
        tasks = self._library.tasks(f"principle/{chosen.name}", namespace=namespace, again=again)
        if chosen.name == EXTRACTIVE:
            matcher = Matcher(self._library, LiteralJudge(), namespace=namespace, similarity=similarity)
            return judge.estimate(list(matcher.pairs(list(chosen.distill(tasks)))))
        one = judge.estimate([Pair(_longest("a"), _longest("b"))])
        questions = sum(len(task.wanted) for task in tasks) * (NEAREST + TWINS)
        cost = None if one.usage.cost_usd is None else one.usage.cost_usd * questions
        usage = replace(
            one.usage,
            calls=questions,
            input_tokens=one.usage.input_tokens * questions,
            output_tokens=one.usage.output_tokens * questions,
            cost_usd=cost,
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
        """The k most similar principles, with their scores, best first; ties by arrival.

        As in EvolveR (3.2.2) similarity alone orders them; the score is for the reader, and for `prune`.

        Args:
            environment: Leaves principles of others out; "" for any.
            floor: Least cosine; None for the embedder's default. EvolveR has none.
        """
        if k < 1:
            raise InputError(f"k is {k}: ask for at least one principle.")
        found = self._library.search(
            text,
            "principle",
            namespace=namespace,
            limit=k,
            floor=self._library.floor if floor is None else floor,
            keep=lambda stored: applies_in(stored.row, environment) and not says_nothing(stored.row),
        )
        return [_found(stored, cosine) for stored, cosine in found]

    def at(
        self,
        after: Sequence[ToolName],
        *,
        namespace: str = DEFAULT_NAMESPACE,
        environment: str = "",
        k: int = RETRIEVED,
        least_runs: int = LEAST_RUNS,
    ) -> list[FoundPrinciple]:
        """Principles about the present place in a run, the tools just called, the best founded first.

        Which they are says `hepm.experience.place.Place.best`. Measured on recorded runs, these point the
        right way where failed runs part from successful ones more often than those whose text is similar
        (benchmarks/LOG.md, "What lessons are worth").

        Args:
            after: Tools of the last turn; none before the first call.
            least_runs: How many runs must have taught one, where there are such.
        """
        known = self._known_at(after, namespace, environment)
        names = {id(one): stored for stored, one in known}
        best = Place([one for _, one in known], after).best(k, least_runs=least_runs)
        return [_found(names[id(one)], None) for one in best]

    def place(self, after: Sequence[ToolName], *, namespace: str = DEFAULT_NAMESPACE, environment: str = "") -> Place:
        """All that principles say about the next tool here."""
        return Place([one for _, one in self._known_at(after, namespace, environment)], after)

    def _known_at(
        self, after: Sequence[ToolName], namespace: str, environment: str
    ) -> list[tuple[StoredLesson, Principle]]:
        places = self._library.lessons(namespace).cached(_by_place)
        stored = {one.row.id: one for tool in after or (START,) for one in places.get(tool, ())}
        return [(one, Principle.of(one.row)) for one in stored.values() if applies_in(one.row, environment)]

    def get(self, id: str, *, namespace: str = DEFAULT_NAMESPACE) -> FoundPrinciple | None:
        """One principle, pruned or not; None if there is none."""
        stored = self._library.lessons(namespace).get(id)
        return None if stored is None or stored.row.kind != "principle" else _found(stored, None)

    def prune(
        self,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        below: float = PRUNED_BELOW,
        min_uses: int = FEWEST_USES,
        dry_run: bool = False,
    ) -> list[FoundPrinciple]:
        """Retire principles with a low score after enough uses; worst first, ties by id. `revive` undoes it."""
        taken = [
            _found(stored, None)
            for stored in self._library.lessons(namespace).all("principle")
            if stored.uses.uses >= min_uses and stored.uses.score < below
        ]
        if taken and not dry_run:
            self._library.change(
                LessonChange(retire=dict.fromkeys((one.id for one in taken), "pruned")), namespace=namespace
            )
        return sorted(taken, key=lambda one: (one.score, one.id))

    def revive(self, ids: Sequence[str], *, namespace: str = DEFAULT_NAMESPACE) -> list[str]:
        """Make retired principles live again; their ids. Their scores stay."""
        lessons = self._library.lessons(namespace)
        retired = [
            id
            for id in dict.fromkeys(ids)
            if (stored := lessons.get(id)) is not None and stored.row.kind == "principle" and not stored.row.live
        ]
        if retired:
            self._library.change(LessonChange(revive=retired), namespace=namespace)
        return retired

    def contradictions(self, *, namespace: str = DEFAULT_NAMESPACE, limit: int = 50) -> list[Contradiction]:
        """Guiding and cautionary principles that oppose each other, those with most runs first."""
        return contradictions_among(self._library.lessons(namespace).all("principle"), limit=limit)


def examples_of(principle: Principle, *, count: int = EXAMPLES) -> Examples:
    """The best and the worst runs behind a principle by reward; runs without one are no examples."""
    rewarded = [source for source in principle.sources if source.reward is not None]
    best = sorted(rewarded, key=lambda source: (-(source.reward or 0.0), source.run))[:count]
    least = min((source.reward or 0.0 for source in best), default=0.0)
    worse = [source for source in rewarded if (source.reward or 0.0) < least]
    return Examples(tuple(best), tuple(sorted(worse, key=lambda source: (source.reward or 0.0, source.run))[:count]))


def _found(stored: StoredLesson, similarity: float | None) -> FoundPrinciple:
    principle = Principle.of(stored.row)
    return FoundPrinciple(stored.row.id, principle, similarity, stored.uses.score, stored.uses, examples_of(principle))


def _by_place(lessons: Collection[StoredLesson]) -> Mapping[ToolName, Sequence[StoredLesson]]:
    places: defaultdict[ToolName, list[StoredLesson]] = defaultdict(list)
    for one in lessons:
        if one.row.live and one.row.kind == "principle" and not says_nothing(one.row):
            for tool in places_of(Principle.of(one.row)):
                places[tool].append(one)
    return places


def _longest(letter: str) -> Principle:
    return Principle("guiding", letter * SENTENCE_CHARS, distilled_by="a model")
