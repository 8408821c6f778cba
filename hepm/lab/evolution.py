"""Evolve the experiences of a store: mutation, generalisation, crossover, pruning (PRIME 3.2, appendix A, table 3).

The paper gives each operator a trigger and a probability. Whether one is applied to an experience in an iteration
depends on the seed, the iteration, the operator and the experience's id alone: equal seed, bank and answers give
equal results, in whatever order answers come. An operator is tried once on the same experiences.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final, Literal, TypeAlias

from hepm.errors import BudgetSpentError, LlmError
from hepm.experience.lesson_bank import LessonBank
from hepm.experience.lessons import Experience
from hepm.experience.transcript import listed
from hepm.graph.lessons.rows import Exposure
from hepm.graph.lessons.transaction import LessonChange
from hepm.lab.operators import (
    OPERATORS,
    Member,
    Operator,
    RewordedExperience,
    question,
    reworded,
)
from hepm.llm import Client, Question
from hepm.types import DEFAULT_NAMESPACE, Trajectory

ITERATIONS: Final = 5
"""N, meta-optimisation cycles (PRIME, table 3)."""

Became: TypeAlias = Literal["kept", "nothing", "failed", "unasked", "pruned"]
"""The end of a step: the child is kept; it has the words of another one ("nothing"); the model "failed"; the budget was
spent ("unasked"); the experience was pruned."""


@dataclass(frozen=True, slots=True)
class EvolutionSettings:
    """How experiences evolve; the numbers are those of PRIME, table 3, where it has one.

    Attributes:
        mutation, generalisation, crossover: Probability per experience, iteration, and degree of temperature.
        hottest, coldest: Meta-temperature of the first and last iteration: the model's, and a factor of probabilities.
        general_from: Least share of successes of an experience that is generalised.
        proven: Runs with a known outcome from which such a share counts; ours.
        related: Largest cosine of two experiences to cross; ours. The least one is the floor of searches.
        prune_shown, prune_after: Experiences shown in fewer runs are pruned, if `prune_after` runs could have shown
            them: N of "not retrieved in last N episodes", which the paper leaves open.
        prune_success: Experiences with a lower share of successes are pruned, once `proven`.
    """

    mutation: float = 0.10
    generalisation: float = 0.05
    crossover: float = 0.02
    hottest: float = 1.0
    coldest: float = 0.1
    general_from: float = 0.7
    proven: int = 3
    related: float = 0.95
    prune_every: int = 2
    prune_shown: int = 2
    prune_after: int = 20
    prune_success: float = 0.3

    def temperature(self, iteration: int, iterations: int) -> float:
        """Meta-temperature of an iteration, from 1."""
        progress = (iteration - 1) / max(1, iterations - 1)
        # Rounded, so that a question to a model is the same on every machine: paid answers are found by it.
        return round(self.hottest + (self.coldest - self.hottest) * progress, 3)


@dataclass(frozen=True, slots=True)
class EvolutionStep:
    """One change that evolution made, or tried, `of` some experiences; `note` says why a child was not kept."""

    iteration: int
    operator: Operator | Literal["pruning"]
    of: tuple[str, ...]
    reason: str
    became: Became
    child: Experience | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class EvolutionReport:
    """All steps in order, and the evolution's id: "" if nothing changed; of a dry run, what it would have been."""

    id: str
    plan: tuple[EvolutionStep, ...]

    @property
    def kept(self) -> Mapping[str, int]:
        """Children kept, by operator."""
        return Counter(step.operator for step in self.plan if step.became == "kept")

    def count(self, became: Became) -> int:
        """How many steps ended this way."""
        return sum(step.became == became for step in self.plan)


class Evolution:
    """One evolution of a namespace's experiences; without a model they are only pruned.

    Args:
        bank: `Memory.lessons`.
        model: Writes the children (see `hepm.lab.operators`).

    Attributes:
        members: The living experiences, by id.
    """

    def __init__(
        self,
        bank: LessonBank,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        seed: int = 0,
        settings: EvolutionSettings | None = None,
        model: Client | None = None,
    ) -> None:
        self._bank, self._namespace, self._seed, self._model = bank, namespace, seed, model
        self._settings = settings or EvolutionSettings()
        self._tried: set[tuple[str, ...]] = set()
        self._plan: list[EvolutionStep] = []
        self._children: dict[str, Experience] = {}
        self._retired: dict[str, str] = {}
        self._environment_of = {run: place for place, _, run in bank.store.runs_by_task(namespace=namespace)}
        bank.mirror.refresh()  # searches read what is in memory
        self.members: dict[str, Member] = {}
        # Also of retired ones: what evolution has replaced is not made again.
        self._seq: dict[str, int] = {}
        for stored in bank.store.lessons.list(namespace=namespace):
            row = stored.row
            if row.kind == "experience":
                self._seq[row.id] = stored.seq
                if row.live:
                    self.members[row.id] = Member(row.id, Experience.of(row), stored.uses)
        # The runs that each experience was shown in, and how new the newest one was that a run was shown.
        self._shown: defaultdict[str, list[Exposure]] = defaultdict(list)
        self._newest: defaultdict[str, int] = defaultdict(lambda: -1)
        for exposure in bank.store.lessons.exposures(namespace=namespace):
            self._shown[exposure.lesson].append(exposure)
            self._newest[exposure.run] = max(self._newest[exposure.run], self._seq.get(exposure.lesson, -1))

    def run(self, iterations: int = ITERATIONS, *, only: int | None = None, dry_run: bool = False) -> EvolutionReport:
        """Evolve, then store all changes at once.

        If the budget is spent, what was answered is kept, and a later call with the same seed asks the rest.

        Args:
            only: One of the iterations, from 1, instead of all.
            dry_run: Change nothing. A model is asked all the same; its ledger keeps its answers.
        Raises:
            EndpointRefusedError: the model refuses every request. Nothing was changed.
        """
        for iteration in [only] if only else range(1, iterations + 1):
            if self._model is not None:
                self._evolve(self._model, iteration, self._settings.temperature(iteration, iterations))
            if iteration % self._settings.prune_every == 0:
                self._prune(iteration)
        if not self._children and not self._retired:
            return EvolutionReport("", tuple(self._plan))
        # Without a clock: the same evolution of the same experiences has the same id.
        changes = "\n".join((*sorted(self._children), "", *sorted(self._retired))).encode("utf-8", "replace")
        id = f"v-{blake2b(changes, digest_size=6).hexdigest()}"
        if not dry_run:
            self._store(id)
        return EvolutionReport(id, tuple(self._plan))

    def _store(self, id: str) -> None:
        put = [self._bank.reviewed(replace(child.row(), made_by=id)) for child in self._children.values()]
        # The parents of a pending child stay until it is approved.
        kept = set[str]().union(*(row.parent_ids for row in put if not row.live))
        retire = {lesson: why for lesson, why in self._retired.items() if lesson not in kept or why == "pruned"}
        self._bank.change(LessonChange(put=put, retire=retire, by=id), namespace=self._namespace)

    def _prune(self, iteration: int) -> None:
        for id, member in sorted(self.members.items()):
            why = self.why_prune(member)
            if why and id not in self._children:
                self._retired[id] = "pruned"
                del self.members[id]
                self._plan.append(EvolutionStep(iteration, "pruning", (id,), why, "pruned"))

    def why_prune(self, member: Member) -> str:
        """Why an experience should be retired: it fails, or is rarely shown; "" if it should stay.

        A run could have shown an experience if it was of its environments, and was shown one as new, or newer.
        """
        settings, uses = self._settings, member.uses
        if uses.uses >= settings.proven and member.success < settings.prune_success:
            return member.record
        # A child of this evolution has no number yet, and was shown to nobody.
        if uses.shown >= settings.prune_shown or member.id not in self._seq:
            return ""
        # Of a run that is not stored, the environment is not known.
        newer = [run for run, newest in self._newest.items() if newest >= self._seq[member.id]]
        missed = sum(not member.places or self._environment_of.get(run) in member.places for run in newer)
        if missed < settings.prune_after:
            return ""
        return f"shown in {uses.shown} of at least {missed} runs that could have shown it"

    def _evolve(self, model: Client, iteration: int, temperature: float) -> None:
        """Draw steps and ask the model for their children: at most one change of an experience, and crossovers."""
        steps: list[EvolutionStep] = []
        taken: set[str] = set()
        for operator in OPERATORS:
            probability = getattr(self._settings, operator) * temperature
            for id, member in sorted(self.members.items()):
                # A generator for each draw: one of an experience does not depend on which others there are.
                chance = random.Random(f"{self._seed}\n{iteration}\n{operator}\n{id}").random()
                if id in taken or chance >= probability:
                    continue
                of: tuple[str, ...] = (id,)
                if operator == "crossover":
                    of, why = self.partner(member, taken)
                elif operator == "generalisation":
                    why = self.why_generalise(member)
                else:
                    why = member.record if member.uses.successes < member.uses.uses else ""
                tried = (operator, *sorted(of))
                if not why or tried in self._tried:
                    continue
                self._tried.add(tried)
                if operator != "crossover":
                    taken.add(id)
                steps.append(EvolutionStep(iteration, operator, of, why, "nothing"))
        # Answers come in any order.
        answers = dict(model.ask_all(enumerate([self._question(step, temperature) for step in steps])))
        for place, step in enumerate(steps):
            self._plan.append(self._ended(step, answers[place], model.endpoint.model))

    def why_generalise(self, member: Member) -> str:
        """Why an experience is due: it succeeds often, in several environments or many runs; "" if it is not."""
        if not member.uses.uses or member.success < self._settings.general_from or not member.places:
            return ""
        environments = {self._environment_of[run] for run in self._runs_shown(member.id, success=True)} - {""}
        if member.uses.uses < self._settings.proven and len(environments) < 2:
            return ""
        if not environments:
            return member.record
        return f"{member.record}, in {listed(sorted(environments))}"

    def partner(self, member: Member, taken: Collection[str]) -> tuple[tuple[str, ...], str]:
        """With the most similar experience of the same zone, environment and tool and a common stage, and why."""
        # What is stored is crossed, a child by the next evolution.
        if member.id not in self._seq:
            return (member.id,), ""
        text, most = member.experience.text, len(self.members)
        for stored, cosine in self._bank.search(text, "experience", namespace=self._namespace, limit=most):
            other = self.members.get(stored.row.id)
            # Too similar ones would give a child that says what its parents say.
            if other is None or other.id in taken or cosine > self._settings.related or not _may_cross(member, other):
                continue
            return (member.id, other.id), f"alike by {cosine:.2f}"
        return (member.id,), ""

    def _runs_shown(self, id: str, *, success: bool) -> list[str]:
        """The stored runs that an experience was shown in and that ended so; the first few by id."""
        shown = [exposure.run for exposure in self._shown[id] if exposure.success is success]
        return sorted(filter(self._environment_of.__contains__, shown))[:40]

    def _question(self, step: EvolutionStep, temperature: float) -> Question[RewordedExperience]:
        """What the model is asked; of a mutation with the runs that it goes by."""
        shown: dict[bool, list[Trajectory]] = {}
        if step.operator == "mutation":
            for success in (True, False):
                runs = self._runs_shown(step.of[0], success=success)
                shown[success] = self._bank.runs(runs, namespace=self._namespace)
        return question(step.operator, [self.members[id] for id in step.of], shown, temperature=temperature)

    def _ended(self, step: EvolutionStep, answer: RewordedExperience | LlmError, model: str) -> EvolutionStep:
        """The step with its child, which takes the place of its parent; or with the reason why there is none."""
        if isinstance(answer, LlmError):
            became = "unasked" if isinstance(answer, BudgetSpentError) else "failed"
            return replace(step, became=became, note=str(answer))
        child = reworded(step.operator, [self.members[id] for id in step.of], answer, model)
        if isinstance(child, str):
            return replace(step, became="failed", note=child)
        if child.id in self._seq or child.id in self._children:
            return replace(step, child=child, note=f"{child.id} has the same words")
        self._children[child.id] = child
        self.members[child.id] = Member(child.id, child)
        if step.operator != "crossover":
            self._retired[step.of[0]] = "superseded"
            del self.members[step.of[0]]
        return replace(step, child=child, became="kept")


def _may_cross(one: Member, other: Member) -> bool:
    """Whether two experiences are of one zone, environment, tool and stage, and say different things."""
    mine, its = one.experience, other.experience
    if mine.zone != its.zone or mine.lesson == its.lesson or set(mine.stages).isdisjoint(its.stages):
        return False
    if {one.id, other.id} & {parent.id for parent in (*mine.parents, *its.parents)}:
        return False
    # What names no environment, or no tool, is about all.
    apart = one.places and other.places and one.places.isdisjoint(other.places)
    return not apart and not (mine.tools and its.tools and set(mine.tools).isdisjoint(its.tools))
