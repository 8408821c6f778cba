"""Evolve the experiences of a store: mutation, generalisation, crossover, pruning (PRIME 3.2, appendix A, table 3).

The paper gives each operator a trigger and a probability. Whether one is applied to an experience in an iteration
depends on the seed, the iteration, the operator and the experience's id alone: equal seed, bank and answers give
equal results, in whatever order answers come. An operator is tried once on the same experiences.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final, Literal, NamedTuple, TypeAlias

from hepm.errors import BudgetSpentError, InputError
from hepm.experience.lesson_bank import LessonBank
from hepm.experience.lessons import Experience
from hepm.experience.operators import (
    OPERATORS,
    Member,
    Operator,
    RewordedExperience,
    question,
    reworded,
)
from hepm.experience.transcript import listed
from hepm.graph.lessons.rows import Exposure
from hepm.graph.lessons.transaction import LessonChange
from hepm.llm import Answered, Client, Question
from hepm.types import Trajectory

ITERATIONS: Final = 5
"""N, meta-optimisation cycles (PRIME, table 3)."""

Became: TypeAlias = Literal["kept", "nothing", "failed", "unasked", "refused", "pruned"]
"""The end of a step: the child is kept; it has the words of another one ("nothing"); the model "failed"; the budget was
spent ("unasked"); a run was forgotten meanwhile ("refused"); the experience was pruned."""

# "v0003-4f5e6d": the number of the evolution, and a hash of what it changed.
_ID: Final = re.compile(r"v(\d+)-[0-9a-f]{6}")
_EVIDENCE: Final = 40  # runs that are read for one experience


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
    concurrency: int = 4

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
    """All steps in order, and the id for `undo`: "" if nothing changed; of a dry run, what it would have been."""

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
    """One evolution of a namespace's experiences (living ones in `members`); without a model they are only pruned."""

    def __init__(
        self, bank: LessonBank, namespace: str, seed: int, settings: EvolutionSettings, model: Client | None = None
    ) -> None:
        self._bank, self._namespace, self._seed = bank, namespace, seed
        self._settings, self._model = settings, model
        self._tried: set[tuple[str, frozenset[str]]] = set()
        self._plan: list[EvolutionStep] = []
        self._children: dict[str, Experience] = {}
        self._retired: dict[str, str] = {}
        runs = bank.store.runs_by_task(namespace=namespace)
        self._environment_of = {run: environment for environment, _, run in runs}
        bank.refresh()  # searches read what is in memory
        every = bank.store.lessons.list(namespace=namespace)
        numbers = (max(_number(stored.row.made_by), _number(stored.row.retired_by)) for stored in every)
        self._last = max(numbers, default=0)
        lessons = [stored for stored in every if stored.row.kind == "experience"]
        # Also retired ones: what evolution has replaced is not made again.
        self._seq = {stored.row.id: stored.seq for stored in lessons}
        self.members: dict[str, Member] = {}
        for stored in lessons:
            if stored.row.live:
                self.members[stored.row.id] = Member(stored.row.id, Experience.of(stored.row), stored.uses)
        # The runs that each experience was shown in, and how new the newest one was that a run was shown.
        self._shown: defaultdict[str, list[Exposure]] = defaultdict(list)
        self._newest: dict[str, int] = {}
        for exposure in bank.store.lessons.exposures(namespace=namespace):
            self._shown[exposure.lesson].append(exposure)
            seq = self._seq.get(exposure.lesson, -1)
            self._newest[exposure.run] = max(seq, self._newest.get(exposure.run, -1))

    def run(self, iterations: int, *, dry_run: bool) -> EvolutionReport:
        """Evolve in memory, then store all changes in one, unless it is a dry run."""
        if iterations < 1:
            raise InputError(f"iterations is {iterations}: it must be 1 or more.")
        for iteration in range(1, iterations + 1):
            temperature = self._settings.temperature(iteration, iterations)
            if self._model is not None:
                made = self._make(self._model, list(self._draw(iteration, temperature)), temperature)
                self._plan += map(self._keep, made)
            if iteration % self._settings.prune_every == 0:
                self._prune(iteration)
        if not self._children and not self._retired:
            return EvolutionReport("", tuple(self._plan))
        # Without a clock: the same evolution of the same experiences has the same id.
        changes = "\n".join((*sorted(self._children), "", *sorted(self._retired))).encode("utf-8", "replace")
        id = f"v{self._last + 1:04d}-{blake2b(changes, digest_size=3).hexdigest()}"
        if not dry_run:
            self._store(id)
        return EvolutionReport(id, tuple(self._plan))

    def _store(self, id: str) -> None:
        put = [self._bank.reviewed(child.row(made_by=id)) for child in self._children.values()]
        # The parents of a pending child stay until it is approved.
        kept = set[str]().union(*(row.parent_ids for row in put if not row.live))
        retire = {lesson: why for lesson, why in self._retired.items() if lesson not in kept or why == "pruned"}
        change = LessonChange(put=put, retire=retire, by=id)
        refused = self._bank.change(change, namespace=self._namespace).refused
        for number, step in enumerate(self._plan):
            if step.child is not None and step.became == "kept" and step.child.id in refused:
                self._plan[number] = replace(step, became="refused", note="its run was forgotten meanwhile")

    def _prune(self, iteration: int) -> None:
        for id, member in sorted(self.members.items()):
            why = self.why_prune(member)
            if why and id not in self._children:
                self._retired[id] = "pruned"
                del self.members[id]
                self._plan.append(EvolutionStep(iteration, "pruning", (id,), why, "pruned"))

    def _draw(self, iteration: int, temperature: float) -> Iterator[EvolutionStep]:
        """The steps to try in an iteration: at most one change of an experience, and crossovers of the others."""
        taken: set[str] = set()
        for operator in OPERATORS:
            probability = getattr(self._settings, operator) * temperature
            for id, member in sorted(self.members.items()):
                # A generator for each draw: one of an experience does not depend on which others there are.
                chance = random.Random(f"{self._seed}\n{iteration}\n{operator}\n{id}").random()
                if id in taken or chance >= probability:
                    continue
                of, why = self._reason(operator, member, taken)
                if why and (operator, frozenset(of)) not in self._tried:
                    self._tried.add((operator, frozenset(of)))
                    if operator != "crossover":
                        taken.add(id)
                    yield EvolutionStep(iteration, operator, of, why, "nothing")

    def _reason(self, operator: Operator, member: Member, taken: Collection[str]) -> tuple[tuple[str, ...], str]:
        """The experiences that an operator would change, and why; "" if there is no reason."""
        if operator == "crossover":
            return self.partner(member, taken)
        if operator == "generalisation":
            return (member.id,), self.why_generalise(member)
        failed = member.uses.successes < member.uses.uses
        return (member.id,), member.record if failed else ""

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
        missed = 0
        for run, newest in self._newest.items():
            # Of a run that is not stored, the environment is not known.
            there = not member.places or self._environment_of.get(run) in member.places
            missed += there and newest >= self._seq[member.id]
        if missed < settings.prune_after:
            return ""
        return f"shown in {uses.shown} of at least {missed} runs that could have shown it"

    def partner(self, member: Member, taken: Collection[str]) -> tuple[tuple[str, ...], str]:
        """With the most similar experience of the same zone, environment and tool and a common stage, and why."""
        # What is stored is crossed, a child by the next evolution.
        if member.id not in self._seq:
            return (member.id,), ""
        found = self._bank.search(
            member.experience.text, "experience", namespace=self._namespace, limit=len(self.members)
        )
        for stored, cosine in found:
            other = self.members.get(stored.row.id)
            # Too similar ones would give a child that says what its parents say.
            if other is None or other.id in taken or cosine > self._settings.related or not _may_cross(member, other):
                continue
            tools = sorted(set(member.experience.tools) & set(other.experience.tools))
            about = f", both about {listed(tools)}" if tools else ""
            return (member.id, other.id), f"alike by {cosine:.2f}{about}"
        return (member.id,), ""

    def _runs_shown(self, id: str, *, success: bool) -> list[str]:
        """The stored runs that an experience was shown in and that ended so; the first few by id."""
        shown = (exposure for exposure in self._shown[id] if exposure.success is success)
        return sorted(exposure.run for exposure in shown if exposure.run in self._environment_of)[:_EVIDENCE]

    def _make(self, model: Client, steps: Sequence[EvolutionStep], temperature: float) -> list[EvolutionStep]:
        """The steps with their children in the words of the model; or with the reason why they have none."""
        questions = [self._question(step, temperature) for step in steps]
        # Answers come in any order.
        asked = model.ask_all(questions, concurrency=self._settings.concurrency)
        results = {result.question: result for result in asked}
        made: list[EvolutionStep] = []
        for step, asked_of_step in zip(steps, questions, strict=True):
            result = results[asked_of_step]
            if not isinstance(result, Answered):
                spent = isinstance(result.error, BudgetSpentError)
                made.append(replace(step, became="unasked" if spent else "failed", note=str(result.error)))
                continue
            child = reworded(step.operator, self._parents(step), result.value, model.endpoint.model)
            if isinstance(child, str):
                made.append(replace(step, became="failed", note=child))
            else:
                made.append(replace(step, child=child))
        return made

    def _parents(self, step: EvolutionStep) -> list[Member]:
        return [self.members[id] for id in step.of]

    def _question(self, step: EvolutionStep, temperature: float) -> Question[RewordedExperience]:
        """What the model is asked; of a mutation with the runs that it goes by."""
        shown: dict[bool, list[Trajectory]] = {}
        if step.operator == "mutation":
            for success in (True, False):
                runs = self._runs_shown(step.of[0], success=success)
                shown[success] = self._bank.runs(runs, namespace=self._namespace)
        return question(step.operator, self._parents(step), shown, temperature=temperature)

    def _keep(self, step: EvolutionStep) -> EvolutionStep:
        """The step with its child, if it has one, among the members, in the place of its parent."""
        child = step.child
        if child is None:
            return step
        if child.id in self._seq or child.id in self._children:
            return replace(step, note=f"{child.id} has the same words")
        self._children[child.id] = child
        self.members[child.id] = Member(child.id, child)
        if step.operator != "crossover":
            self._retired[step.of[0]] = "superseded"
            del self.members[step.of[0]]
        return replace(step, became="kept")


def _may_cross(one: Member, other: Member) -> bool:
    """Whether two experiences are of one zone, environment, tool and stage, and say different things."""
    mine, its = one.experience, other.experience
    if mine.zone != its.zone or mine.lesson == its.lesson or set(mine.stages).isdisjoint(its.stages):
        return False
    if any(parent.id in (one.id, other.id) for parent in (*mine.parents, *its.parents)):
        return False
    if one.places and other.places and one.places.isdisjoint(other.places):
        return False
    return not mine.tools or not its.tools or not set(mine.tools).isdisjoint(its.tools)


class Undone(NamedTuple):
    """Ids of experiences that undoing an evolution revived, and of children that it removed."""

    revived: tuple[str, ...]
    dropped: tuple[str, ...]


def undo(bank: LessonBank, evolution: str, *, namespace: str) -> Undone:
    """Revive what the latest evolution retired, and remove its children.

    Raises:
        InputError: no such evolution, or not the latest one.
    """
    stored = bank.store.lessons.list(namespace=namespace)
    rows = [lesson.row for lesson in stored if lesson.row.kind == "experience"]
    known = sorted({by for row in rows for by in (row.made_by, row.retired_by) if _number(by)}, key=_number)
    if evolution not in known:
        among = f"known are {', '.join(known)}" if known else "there is none to undo"
        raise InputError(f"no evolution {evolution!r} in {namespace!r}: {among}.")
    if evolution != known[-1]:
        raise InputError(f"{evolution} cannot be undone: later ones may have built on it. Undo {known[-1]} first.")
    # Its own children go, also those that it replaced in a later iteration.
    children = tuple(row.id for row in rows if row.made_by == evolution)
    retired = tuple(row.id for row in rows if row.retired_by == evolution and row.made_by != evolution)
    bank.change(LessonChange(revive=retired, drop=children), namespace=namespace)
    return Undone(retired, children)


def _number(id: str) -> int:
    """The number in the id of an evolution; 0 for any other text."""
    match = _ID.fullmatch(id)
    if match is None:
        return 0
    return int(match[1])
