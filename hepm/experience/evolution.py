"""A library of experiences evolves: mutation, generalisation, crossover, pruning (PRIME 3.2, appendix A, table 3).

The paper gives each operator a trigger and a probability. Whether one is applied to an experience in an iteration
depends on the seed, the iteration, the operator and the experience's id alone: equal seed, library and answers give
equal results, in whatever order answers come. An operator is tried once on the same experiences.

PRIME explores between iterations. Here all iterations use the same feedback; for the paper's alternation, evolve with
one iteration after each round of runs.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final, Literal, NamedTuple, TypeAlias

from hepm.errors import BudgetSpentError, InputError
from hepm.experience.lessons import Experience
from hepm.experience.library import Library
from hepm.experience.operators import OPERATORS, Evidence, Member, Operator, by_counting, question, reworded
from hepm.experience.population import EvolutionSettings, Guard, HeldOut, Population, held_out_runs
from hepm.graph.lessons.rows import LessonRow
from hepm.graph.lessons.store import LessonChange
from hepm.llm import Answered, Client

ITERATIONS: Final = 5
"""N, meta-optimisation cycles (PRIME, table 3)."""

_ID: Final = re.compile(r"v(\d+)-[0-9a-f]{6}")

Became: TypeAlias = Literal["kept", "rejected", "nothing", "failed", "unasked", "refused", "pruned"]
"""The end of a step.

- kept: the child is stored.
- rejected: searches for held-out tasks find it worse than its parent.
- nothing: the operator had nothing to change, or another experience has the same words.
- failed: the model gave no usable answer.
- unasked: the budget was spent.
- refused: its run was forgotten meanwhile.
- pruned: the experience was retired.
"""


@dataclass(frozen=True, slots=True)
class EvolutionStep:
    """One change that evolution made, or tried.

    Attributes:
        iteration: From 1.
        of: Ids of the experiences it was applied to, and the reason.
        child: The new experience; None if there is none.
        note: Why it was not kept; "" if it was.
    """

    iteration: int
    operator: Operator | Literal["pruning"]
    of: tuple[str, ...]
    reason: str
    became: Became
    child: Experience | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class EvolutionReport:
    """The result of an evolution.

    Attributes:
        id: For `undo`; "" if nothing changed. Of a dry run, what it would have been.
        plan: All steps in order.
        queries: How many situations of held-out tasks children were compared on; 0 without a guard.
    """

    id: str
    plan: tuple[EvolutionStep, ...]
    queries: int = 0
    dry_run: bool = False

    @property
    def kept(self) -> Mapping[str, int]:
        """Children kept, by operator."""
        return Counter(step.operator for step in self.plan if step.became == "kept")

    def count(self, became: Became) -> int:
        """How many steps ended this way."""
        return sum(step.became == became for step in self.plan)


class Evolution:
    """One evolution of the experiences of a namespace.

    Args:
        model: Writes the children; without one they are made by counting (see `hepm.experience.operators`).
        held_out: Tasks whose runs teach no child and must not find it worse than its parent (see `Guard`); None for no
            such check.
    """

    def __init__(
        self,
        library: Library,
        namespace: str,
        seed: int,
        settings: EvolutionSettings,
        model: Client | None,
        held_out: HeldOut | None,
    ) -> None:
        self._library, self._namespace, self._seed = library, namespace, seed
        self._settings, self._model = settings, model
        self._population = Population(library, namespace, settings)
        self._held_out = held_out_runs(held_out, self._population.places, seed=seed)
        self._guard = Guard(library, self._held_out, self._population, namespace=namespace, seed=seed)
        self._tried: set[tuple[str, frozenset[str]]] = set()
        self._plan: list[EvolutionStep] = []
        self._children: dict[str, Experience] = {}
        self._retired: dict[str, str] = {}

    def run(self, iterations: int, *, dry_run: bool) -> EvolutionReport:
        """Evolve in memory, then store all changes in one, unless it is a dry run."""
        if iterations < 1:
            raise InputError(f"iterations is {iterations}: it must be 1 or more.")
        for iteration in range(1, iterations + 1):
            self._iterate(iteration, self._settings.temperature(iteration, iterations))
        id, refused = "", set[str]()
        if self._children or self._retired:
            rows = [one.row for one in self._library.store.lessons.list(namespace=self._namespace)]
            id = _next_id(rows, self._children, self._retired)
            if not dry_run:
                put = [child.row(made_by=id) for child in self._children.values()]
                change = LessonChange(put=put, retire=self._retired, by=id)
                refused = set(self._library.change(change, namespace=self._namespace).refused)
        plan = (
            replace(step, became="refused", note="its run was forgotten meanwhile")
            if step.child is not None and step.became == "kept" and step.child.id in refused
            else step
            for step in self._plan
        )
        return EvolutionReport(id, tuple(plan), len(self._guard), dry_run=dry_run)

    def _iterate(self, iteration: int, temperature: float) -> None:
        made = self._make(list(self._draw(iteration, temperature)), temperature)
        texts = list(dict.fromkeys(step.child.text for step in made if step.child is not None))
        vectors_ND = self._population.comparable(self._library.vectors(texts)) if texts else ()
        vectors = dict(zip(texts, vectors_ND, strict=True))
        for step in made:
            if step.child is None:
                self._plan.append(step)
            else:
                child = Member(step.child.id, step.child, vector=vectors[step.child.text])
                self._plan.append(self._take_in(step, child))
        if iteration % self._settings.prune_every == 0:
            for id, one in sorted(self._population.members.items()):
                if id not in self._children and (why := self._population.why_prune(one)):
                    self._retire(id, "pruned")
                    self._plan.append(EvolutionStep(iteration, "pruning", (id,), why, "pruned"))

    def _draw(self, iteration: int, temperature: float) -> Iterator[EvolutionStep]:
        """The steps to try in an iteration: at most one change of an experience, and crossovers of the others."""
        taken: set[str] = set()
        for operator in OPERATORS:
            probability = getattr(self._settings, operator) * temperature
            for id, one in sorted(self._population.members.items()):
                chance = random.Random(f"{self._seed}\n{iteration}\n{operator}\n{id}").random()
                if id in taken or chance >= probability:
                    continue
                of, why = self._due(operator, one, taken)
                if why and (operator, frozenset(of)) not in self._tried:
                    self._tried.add((operator, frozenset(of)))
                    taken.update([id] if operator != "crossover" else [])
                    yield EvolutionStep(iteration, operator, of, why, "nothing")

    def _due(self, operator: Operator, one: Member, taken: set[str]) -> tuple[tuple[str, ...], str]:
        """Which experiences an operator applies to, and why; "" if it does not."""
        if operator == "crossover":
            found = self._population.partner(one, floor=self._library.floor, taken=taken)
            return ((one.id, found[0].id), found[1]) if found else ((), "")
        due = self._population.why_mutate if operator == "mutation" else self._population.why_generalise
        return (one.id,), due(one)

    def _make(self, steps: Sequence[EvolutionStep], temperature: float) -> list[EvolutionStep]:
        """The steps with their children, made by counting or by the model."""
        tasks = [(step, [self._population.members[id] for id in step.of], self._evidence(step)) for step in steps]
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
                became = "unasked" if isinstance(result.error, BudgetSpentError) else "failed"
                made.append(replace(step, became=became, note=str(result.error)))
        return made

    def _evidence(self, step: EvolutionStep) -> Evidence:
        if step.operator != "mutation":
            return Evidence()
        shown = (
            self._population.runs_shown(step.of[0], success=success, without=self._held_out)
            for success in (True, False)
        )
        return Evidence(*(self._library.runs(runs, namespace=self._namespace) for runs in shown))

    def _take_in(self, step: EvolutionStep, child: Member) -> EvolutionStep:
        """Keep a child if it is new and the guard has no objection."""
        replaced = "" if step.operator == "crossover" else step.of[0]
        if child.id in self._population.known:
            return replace(step, note=f"{child.id} has the same words")
        if why := self._guard.objection(child, instead_of=replaced):
            return replace(step, became="rejected", note=why)
        self._children[child.id] = child.experience
        self._population.known.add(child.id)
        self._population.members[child.id] = child
        if replaced:
            self._retire(replaced, "superseded")
        return replace(step, became="kept")

    def _retire(self, id: str, why: str) -> None:
        self._retired[id] = why
        del self._population.members[id]


def _with(step: EvolutionStep, made: Experience | str, otherwise: Became) -> EvolutionStep:
    """The step with its child; or with the reason why it has none."""
    return replace(step, became=otherwise, note=made) if isinstance(made, str) else replace(step, child=made)


# Past evolutions


@dataclass(frozen=True, slots=True)
class PastEvolution:
    """An evolution, as far as the store still knows it.

    Attributes:
        made: Experiences that it made, by operator, retired ones included.
        superseded, pruned: How many it replaced by children, and pruned.
        living: How many of its children are live.
    """

    id: str
    made: Mapping[str, int]
    superseded: int
    pruned: int
    living: int


class Undone(NamedTuple):
    """Ids of experiences that undoing an evolution revived, and of children that it removed."""

    revived: tuple[str, ...]
    dropped: tuple[str, ...]


def evolutions(rows: Iterable[LessonRow]) -> list[PastEvolution]:
    """Evolutions that made or retired one of the lessons, in order."""
    known = list(rows)
    ids = {id for row in known for id in (row.made_by, row.retired_by) if _ID.fullmatch(id)}
    return [
        PastEvolution(
            id,
            Counter(row.parents[0].operator for row in known if row.made_by == id and row.parents),
            sum(row.retired_by == id and row.retired == "superseded" for row in known),
            sum(row.retired_by == id and row.retired == "pruned" for row in known),
            sum(row.made_by == id and row.live for row in known),
        )
        for id in sorted(ids, key=_number)
    ]


def undo(library: Library, evolution: str, *, namespace: str) -> Undone:
    """Revive what an evolution retired, and remove its children.

    Raises:
        InputError: no such evolution, or a later one built on it.
    """
    rows = [one.row for one in library.store.lessons.list(namespace=namespace) if one.row.kind == "experience"]
    known = [past.id for past in evolutions(rows)]
    if evolution not in known:
        among = f"known are {', '.join(known)}" if known else "there is none to undo"
        raise InputError(f"no evolution {evolution!r} in {namespace!r}: {among}.")
    children = {row.id: None for row in rows if row.made_by == evolution}
    built_on = {row.made_by for row in rows if any(parent.id in children for parent in row.parents)}
    built_on |= {row.retired_by for row in rows if row.id in children}
    if later := max((id for id in built_on if _ID.fullmatch(id) and id != evolution), key=_number, default=""):
        raise InputError(f"{evolution} cannot be undone: {later} built on what it made. Undo {later} first.")
    retired = tuple(row.id for row in rows if row.retired_by == evolution and row.id not in children)
    library.change(LessonChange(revive=retired, drop=tuple(children)), namespace=namespace)
    return Undone(retired, tuple(children))


def _number(id: str) -> int:
    found = _ID.fullmatch(id)
    return int(found[1]) if found else 0


def _next_id(rows: Iterable[LessonRow], put: Iterable[str], retire: Iterable[str]) -> str:
    """A number and a hash of the changes, without a clock: the same evolution of the same library has the same id."""
    number = 1 + max((_number(id) for row in rows for id in (row.made_by, row.retired_by)), default=0)
    changes = "\n".join((*sorted(put), "", *sorted(retire)))
    return f"v{number:04d}-{blake2b(changes.encode('utf-8', 'replace'), digest_size=3).hexdigest()}"
