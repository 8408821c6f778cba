"""Evolve the experiences of a store: mutation, generalisation, crossover, pruning (PRIME 3.2, appendix A, table 3).

The paper gives each operator a trigger and a probability. Whether one is applied to an experience in an iteration
depends on the seed, the iteration, the operator and the experience's id alone: equal seed, bank and answers give
equal results, in whatever order answers come. An operator is tried once on the same experiences.
"""

from __future__ import annotations

import random
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np

from hepm.errors import BudgetSpentError, InputError
from hepm.experience.lesson_bank import LessonBank
from hepm.experience.lessons import Experience
from hepm.experience.operators import OPERATORS, Evidence, Member, Operator, by_counting, question, reworded
from hepm.experience.transcript import listed
from hepm.graph.lessons.rows import Exposure
from hepm.graph.lessons.transaction import LessonChange
from hepm.graph.mirror.lesson_mirror import rarity, weighted
from hepm.graph.rows import Float32Array
from hepm.llm import Answered, Client
from hepm.types import Trajectory

ITERATIONS: Final = 5
"""N, meta-optimisation cycles (PRIME, table 3)."""

Became: TypeAlias = Literal["kept", "nothing", "failed", "unasked", "refused", "pruned"]
"""The end of a step: the child is kept; there was "nothing" to change; the model "failed"; the budget was spent
("unasked"); a run was forgotten meanwhile ("refused"); the experience was pruned."""

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
    at_once: int = 4

    def __post_init__(self) -> None:
        for name in (*OPERATORS, "general_from", "prune_success", "related"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} is {getattr(self, name)}: it must lie between 0 and 1.")
        if not 0 <= self.coldest <= self.hottest <= 2 or min(self.proven, self.prune_every, self.at_once) < 1:
            raise InputError("give 2 >= hottest >= coldest >= 0, and proven, prune_every and at_once of 1 or more.")

    def temperature(self, iteration: int, iterations: int) -> float:
        """Meta-temperature of an iteration, from 1."""
        return round(self.hottest + (self.coldest - self.hottest) * (iteration - 1) / max(1, iterations - 1), 3)


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
    """One evolution of a namespace's experiences (living ones in `members`), by counting or by a model."""

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
        lessons = [one for one in bank.store.lessons.list(namespace=namespace) if one.row.kind == "experience"]
        embedded = {one.row.id: one.vector for one in lessons if one.vector is not None}
        raw_ND = np.stack(list(embedded.values())).astype(np.float16) if embedded else None
        self._weights_D = None if raw_ND is None else rarity(raw_ND)
        vectors = {} if raw_ND is None else dict(zip(embedded, self.comparable(raw_ND.astype(np.float32)), strict=True))
        every = {
            one.row.id: Member(one.row.id, Experience.of(one.row), one.uses, vectors.get(one.row.id)) for one in lessons
        }
        self._known = set(every)
        self.members = {one.row.id: every[one.row.id] for one in lessons if one.row.live}
        self._seq = {one.row.id: one.seq for one in lessons}
        self._shown: defaultdict[str, list[Exposure]] = defaultdict(list)
        of_run: defaultdict[str, list[str]] = defaultdict(list)
        for exposure in bank.store.lessons.exposures(namespace=namespace):
            self._shown[exposure.lesson].append(exposure)
            if exposure.lesson in every:
                of_run[exposure.run].append(exposure.lesson)
        # The newest lesson's number of each run that was shown lessons, by their environments; "" is any.
        self._newest: defaultdict[frozenset[str], list[int]] = defaultdict(list)
        for ids in of_run.values():
            environments = frozenset(place for id in ids for place in (every[id].places or {""}))
            self._newest[environments].append(max(self._seq[id] for id in ids))
        for numbers in self._newest.values():
            numbers.sort()

    def comparable(self, vectors_ND: Float32Array) -> Float32Array:
        """The vectors as a search among these experiences weights them."""
        return vectors_ND if self._weights_D is None else weighted(vectors_ND, self._weights_D)

    def run(self, iterations: int, *, dry_run: bool) -> EvolutionReport:
        """Evolve in memory, then store all changes in one, unless it is a dry run."""
        if iterations < 1:
            raise InputError(f"iterations is {iterations}: it must be 1 or more.")
        for iteration in range(1, iterations + 1):
            self._iterate(iteration, self._settings.temperature(iteration, iterations))
        id, refused = "", set[str]()
        if self._children or self._retired:
            rows = [one.row for one in self._bank.store.lessons.list(namespace=self._namespace)]
            number = 1 + max((_number(id) for row in rows for id in (row.made_by, row.retired_by)), default=0)
            # Without a clock: the same evolution of the same experiences has the same id.
            changes = "\n".join((*sorted(self._children), "", *sorted(self._retired))).encode("utf-8", "replace")
            id = f"v{number:04d}-{blake2b(changes, digest_size=3).hexdigest()}"
            if not dry_run:
                put = [child.row(made_by=id) for child in self._children.values()]
                change = LessonChange(put=put, retire=self._retired, by=id)
                refused = set(self._bank.change(change, namespace=self._namespace).refused)
        for at, step in enumerate(self._plan):
            if step.child is not None and step.became == "kept" and step.child.id in refused:
                self._plan[at] = replace(step, became="refused", note="its run was forgotten meanwhile")
        return EvolutionReport(id, tuple(self._plan))

    def _iterate(self, iteration: int, temperature: float) -> None:
        made = self._make(list(self._draw(iteration, temperature)), temperature)
        texts = list(dict.fromkeys(step.child.text for step in made if step.child is not None))
        vectors = dict(zip(texts, self.comparable(self._bank.vectors(texts)), strict=True)) if texts else {}
        self._plan += [self._keep(step, step.child, vectors[step.child.text]) if step.child else step for step in made]
        if iteration % self._settings.prune_every == 0:
            self._prune(iteration)

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
        if operator == "mutation":
            failed = member.uses.successes < member.uses.uses
            return (member.id,), member.record if failed else ""
        if operator == "generalisation":
            return (member.id,), self.why_generalise(member)
        partner = self.partner(member, taken)
        if partner is None:
            return (member.id,), ""
        other, why = partner
        return (member.id, other.id), why

    def why_generalise(self, one: Member) -> str:
        """Why an experience is due: it succeeds often, in several environments or many runs; "" if it is not."""
        if not one.uses.uses or one.success < self._settings.general_from or not one.places:
            return ""
        environments = {self._environment_of[run] for run in self._runs_shown(one.id, success=True)} - {""}
        if one.uses.uses < self._settings.proven and len(environments) < 2:
            return ""
        return one.record + (f", in {listed(sorted(environments))}" if environments else "")

    def why_prune(self, one: Member) -> str:
        """Why an experience should be retired: it fails, or is rarely shown; "" if it should stay.

        A run could have shown an experience if it was shown one of the same environments that is as new, or newer.
        """
        settings, uses = self._settings, one.uses
        if uses.uses >= settings.proven and one.success < settings.prune_success:
            return one.record
        if uses.shown >= settings.prune_shown or one.id not in self._seq:
            return ""
        missed = sum(
            len(numbers) - bisect_left(numbers, self._seq[one.id])
            for environments, numbers in self._newest.items()
            if not one.places or environments & {"", *one.places}
        )
        if missed < settings.prune_after:
            return ""
        return f"shown in {uses.shown} of at least {missed} runs that could have shown it"

    def partner(self, one: Member, taken: Collection[str]) -> tuple[Member, str] | None:
        """The most similar experience of the same zone, environment and tool and a common stage, and why; or None."""
        fitting: list[tuple[float, str]] = []
        for id, other in self.members.items():
            if id in taken or one.vector is None or other.vector is None or not _may_cross(one, other):
                continue
            cosine = float(one.vector @ other.vector)
            # Too similar ones would give a child that says what its parents say.
            if self._bank.floor <= cosine <= self._settings.related:
                fitting.append((-cosine, id))
        if not fitting:
            return None
        negated, id = min(fitting)
        why = f"alike by {-negated:.2f}"
        tools = sorted(set(one.experience.tools) & set(self.members[id].experience.tools))
        if tools:
            why += f", both about {listed(tools)}"
        return self.members[id], why

    def _runs_shown(self, id: str, *, success: bool) -> list[str]:
        shown = (one.run for one in self._shown[id] if one.success is success and one.run in self._environment_of)
        return sorted(shown)[:_EVIDENCE]

    def _runs(self, id: str, *, success: bool) -> list[Trajectory]:
        return self._bank.runs(self._runs_shown(id, success=success), namespace=self._namespace)

    def _make(self, steps: Sequence[EvolutionStep], temperature: float) -> list[EvolutionStep]:
        """The steps with their children, made by counting or by the model."""
        tasks: list[tuple[EvolutionStep, list[Member], Evidence]] = []
        for step in steps:
            evidence: Evidence = ((), ())
            if step.operator == "mutation":
                evidence = self._runs(step.of[0], success=True), self._runs(step.of[0], success=False)
            tasks.append((step, [self.members[id] for id in step.of], evidence))
        if self._model is None:
            return [_with(step, by_counting(step.operator, of, shown), "nothing") for step, of, shown in tasks]
        asked = [question(step.operator, of, shown, temperature=temperature) for step, of, shown in tasks]
        results = {one.question: one for one in self._model.ask_all(asked, at_once=self._settings.at_once)}
        made: list[EvolutionStep] = []
        for (step, of, _), one in zip(tasks, asked, strict=True):
            result = results[one]
            if isinstance(result, Answered):
                child = reworded(step.operator, of, result.value, self._model.endpoint.model)
                made.append(_with(step, child, "failed"))
            else:
                unasked = isinstance(result.error, BudgetSpentError)
                made.append(_with(step, str(result.error), "unasked" if unasked else "failed"))
        return made

    def _keep(self, step: EvolutionStep, child: Experience, vector: Float32Array) -> EvolutionStep:
        if child.id in self._known:
            return replace(step, note=f"{child.id} has the same words")
        self._known.add(child.id)
        self._children[child.id] = child
        self.members[child.id] = Member(child.id, child, vector=vector)
        if step.operator != "crossover":
            self._retired[step.of[0]] = "superseded"
            del self.members[step.of[0]]
        return replace(step, became="kept")


def _with(step: EvolutionStep, made: Experience | str, otherwise: Became) -> EvolutionStep:
    """The step with its child; or with the reason why it has none."""
    if isinstance(made, str):
        return replace(step, became=otherwise, note=made)
    return replace(step, child=made)


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
    """Revive what an evolution retired, and remove its children.

    Raises:
        InputError: no such evolution, or a later one built on it.
    """
    rows = [one.row for one in bank.store.lessons.list(namespace=namespace) if one.row.kind == "experience"]
    known = sorted({id for row in rows for id in (row.made_by, row.retired_by) if _ID.fullmatch(id)}, key=_number)
    if evolution not in known:
        among = f"known are {', '.join(known)}" if known else "there is none to undo"
        raise InputError(f"no evolution {evolution!r} in {namespace!r}: {among}.")
    children = {row.id: None for row in rows if row.made_by == evolution}
    built_on = {row.made_by for row in rows if any(parent.id in children for parent in row.parents)}
    built_on |= {row.retired_by for row in rows if row.id in children}
    later = max((id for id in built_on if _ID.fullmatch(id) and id != evolution), key=_number, default="")
    if later:
        raise InputError(f"{evolution} cannot be undone: {later} built on what it made. Undo {later} first.")
    retired = tuple(row.id for row in rows if row.retired_by == evolution and row.id not in children)
    bank.change(LessonChange(revive=retired, drop=tuple(children)), namespace=namespace)
    return Undone(retired, tuple(children))


def _number(id: str) -> int:
    found = _ID.fullmatch(id)
    return int(found[1]) if found else 0
