"""Principles: rules of one sentence, scored by use, found by similarity or by place (EvolveR).

A place is the tools just called (see `hepm.experience.moment`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import Final, NamedTuple, TypeAlias

from hepm.errors import InputError
from hepm.experience.comparison import says_nothing
from hepm.experience.counted import learn_by_counting
from hepm.experience.distilling import Distiller, DistillReport, Progress, distill_into
from hepm.experience.lesson_bank import LessonBank
from hepm.experience.lessons import EXTRACTIVE, SOLVED_BY, Principle
from hepm.experience.matching import Judge, Matcher, judge_literally
from hepm.experience.moment import Moment
from hepm.experience.recipes import Step, tools_of
from hepm.graph.lessons.rows import Source, StoredLesson, Uses, next_calls
from hepm.graph.lessons.transaction import LessonChange
from hepm.graph.tool_life import ToolNames
from hepm.ingest.transitions import agent_state
from hepm.types import DEFAULT_NAMESPACE, START, StateSummary, Suggestions, ToolName, Turn

RETRIEVED: Final = 3
"""k_e: principles given on a search (EvolveR, A.2)."""
PRUNED_BELOW: Final = 0.3
"""θ_prune: least score of a principle that stays (EvolveR, A.2)."""
FEWEST_USES: Final = 8
"""Uses before a principle may be pruned; ours.

By the score alone two failures suffice (1 / 4), which of principles that change nothing, in a task that half of the
runs solve, would take 35 % within 30 uses. From eight uses on it takes 13 %, of those that lead to success in two
runs of three 1 %, and still 95 % of those that do so in one of five.
"""


def let_down(uses: Uses) -> bool:
    """Whether the runs that were shown a lesson mostly failed: no prompt shows it any more."""
    return uses.uses >= FEWEST_USES and uses.score < PRUNED_BELOW


class FoundPrinciple(NamedTuple):
    """A principle that applies; `similarity` is the cosine with the search text, None without one."""

    id: str
    principle: Principle
    similarity: float | None
    uses: Uses

    @classmethod
    def of(cls, stored: StoredLesson, similarity: float | None = None) -> FoundPrinciple:
        """A stored principle as it is found; `similarity` in [-1, 1], None where no text was searched for."""
        return cls(stored.row.id, Principle.of(stored.row), similarity, stored.uses)

    @property
    def score(self) -> float:
        """s(p) = (successes + 1) / (uses + 2), in (0, 1) (EvolveR, equation 2)."""
        return self.uses.score

    @property
    def examples(self) -> list[Source]:
        """Up to two best runs behind it by reward, then up to two worst; runs without a reward are none."""
        rewards = {source: -source.reward for source in self.principle.sources if source.reward is not None}
        ranked = sorted(rewards, key=lambda source: (rewards[source], source.run))
        best = ranked[:2]
        # Not the best ones again: where all runs have one reward, none is a worse example.
        worse = [source for source in reversed(ranked) if rewards[source] > rewards[best[-1]]]
        return best + worse[:2]


@dataclass(frozen=True)
class Principles:
    """The principles of a memory (see `hepm.Memory.principles`)."""

    bank: LessonBank

    def distill(
        self,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        distiller: Distiller | None = None,
        judge: Judge | None = None,
        on_progress: Progress | None = None,
    ) -> DistillReport:
        """Distill the runs that were not distilled yet, and add what is new (see `distill_into` and `matching`).

        Without a distiller, count what all runs teach (see `learn_by_counting`). Of principles that mean the same, the
        one stored first stays, and of a batch the one of most runs.

        Args:
            judge: Decides whether two principles mean the same; without a model by default.
        """
        if distiller is None:
            return learn_by_counting(self.bank, namespace=namespace)
        # The judge sees each batch before it is stored, so that no principle is stored twice.
        matcher = Matcher(self.bank, judge or judge_literally, namespace)
        report = distill_into(self.bank, distiller, namespace=namespace, match=matcher, on_progress=on_progress)
        return report + replace(learn_by_counting(self.bank, namespace=namespace), runs=0)

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
        found = self.bank.search(
            text,
            "principle",
            namespace=namespace,
            environment=environment,
            limit=k,
            floor=floor,
        )
        return [FoundPrinciple.of(stored, cosine) for stored, cosine in found]

    def for_query(
        self,
        query: str,
        turns: Sequence[Turn],
        *,
        namespace: str,
        environment: str,
        k: int = RETRIEVED,
        floor: float | None,
    ) -> list[FoundPrinciple]:
        """What an agent that searches reads after these turns.

        The most similar ones (EvolveR, 3.2.2), then those about the tools just called (ours: principles made without a
        model name tools, and share few words with questions).
        """
        similar = self.search(query, namespace=namespace, environment=environment, k=k, floor=floor)
        now = agent_state(turns)
        of_last = self.at(
            now.last,
            state=now.state(),
            history=now.history,
            namespace=namespace,
            environment=environment,
            k=k,
        )
        # Those about the last tools fill what similar ones leave of k.
        known = {principle.id for principle in similar}
        return [*similar, *(principle for principle in of_last if principle.id not in known)][:k]

    def at(
        self,
        after: Sequence[ToolName],
        *,
        state: str | StateSummary = "",
        history: Sequence[ToolName] = (),
        namespace: str = DEFAULT_NAMESPACE,
        environment: str = "",
        k: int = RETRIEVED,
    ) -> list[FoundPrinciple]:
        """Principles about the next tool that hold here, those that runs bear out best first (see `Moment.best`).

        On recorded runs, these are right more often than those whose text is similar (benchmarks/LOG.md, "What lessons
        are worth").

        Args:
            after: Tools of the last turn; none before the first call.
            state: What the agent knows; as text, what the user said so far.
            history: All calls so far. Advice to call what the run called since the user last wrote is past.
        """
        if isinstance(state, str):
            state = StateSummary(said=(state,) if state else ())
        # Without the agent's own names, tools go by those that memory has them under.
        names = ToolNames.of(self.bank.mirror.namespace(namespace).marks, after, ())
        moment = Moment(after, names, history, state, environment=environment)
        about = self.about(moment, namespace=namespace)
        agreed = [one for one in about if moment.holds(one) and moment.agrees(one, Suggestions())]
        known = self.bank.lessons(namespace)
        stored = map(known.get, [principle.id for principle in moment.best(agreed, k)])
        return list(map(FoundPrinciple.of, filter(None, stored)))

    def about(self, here: Moment, *, namespace: str = DEFAULT_NAMESPACE) -> list[Principle]:
        """The principles about the next tool at a moment, whether they hold or not."""
        names = chain.from_iterable(map(here.names.spellings, here.after or (START,)))
        found = chain.from_iterable(self._said(name, here, namespace) for name in names)
        return list({principle.id: principle for principle in found}.values())

    def repairs(self, step: Step, here: Moment, *, namespace: str) -> Iterator[Principle]:
        """What helps after a call that failed: by the first of its errors that is known."""
        for error, tool in product(step.errors, tools_of(step)):
            for principle in self._said(f"{tool}: {error}", here, namespace):
                yield principle
                return

    def _said(self, when: str, here: Moment, namespace: str) -> Iterator[Principle]:
        """The principles that speak then (see `_by_moment`), of those that who reads may see."""
        known = self.bank.lessons(namespace)
        for stored, principle in known.cached(_by_moment, "principle").get(when, ()):
            if here.is_in(principle.conditions) and known.told_to(stored, self.bank.token):
                yield principle

    def prune(self, *, namespace: str = DEFAULT_NAMESPACE, below: float | None = None) -> list[FoundPrinciple]:
        """Retire principles with a low score; worst first, ties by id. `revive` undoes it.

        Args:
            below: θ_prune, whatever the uses, as in EvolveR. By default `PRUNED_BELOW`, from `FEWEST_USES` on.
        """
        fewest = 0
        if below is None:
            below = PRUNED_BELOW
            fewest = FEWEST_USES
        live = self.bank.list("principle", namespace=namespace)
        low = [FoundPrinciple.of(one) for one in live if one.uses.uses >= fewest and one.uses.score < below]
        if low:
            self.bank.change(LessonChange(retire={found.id: "pruned" for found in low}), namespace=namespace)
        return sorted(low, key=lambda found: (found.score, found.id))


def are_written(lessons: Collection[StoredLesson]) -> bool:
    """Whether a model or a person wrote one: those that counting found speak at a place, and not by their words."""
    return any(stored.row.live and stored.row.properties.get("distilled_by") != EXTRACTIVE for stored in lessons)


_Moments: TypeAlias = defaultdict[str, list[tuple[StoredLesson, Principle]]]


def _by_moment(lessons: Collection[StoredLesson]) -> _Moments:
    """Live principles by when they speak: after a call of a tool, by its name, or after its error."""
    moments: _Moments = defaultdict(list)
    for stored in lessons:
        if not stored.row.live or says_nothing(stored.row):
            continue
        triples = stored.row.triples
        when = {call.after for call in next_calls(triples)}
        when.update(triple.subject for triple in triples if triple.predicate == SOLVED_BY)
        spoken = stored, Principle.of(stored.row)
        for moment in when:
            moments[moment].append(spoken)
    return moments
