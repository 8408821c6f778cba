"""A library of experiences evolves: mutation, generalisation, crossover, pruning (PRIME 3.2, appendix A, table 3).

The paper gives each operator a trigger and a probability. Whether one is applied to an experience in an iteration is
decided by the seed, the iteration, the operator and the experience's id alone: equal seed, library and answers give
equal results, in whatever order answers come. An operator is tried once on the same experiences.

PRIME explores between iterations. Here all iterations look at the same feedback; who wants the paper's alternation
evolves with one iteration after each round of runs.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

from hepm.errors import InputError
from hepm.experience.evolution.guard import Guard, HeldOut, held_out_runs
from hepm.experience.evolution.history import next_id
from hepm.experience.evolution.operators import NOTHING, Evidence, by_counting, objection, question, reworded
from hepm.experience.evolution.plan import (
    OPERATORS,
    Became,
    EvolutionReport,
    EvolutionSettings,
    EvolutionStep,
    Operator,
)
from hepm.experience.evolution.population import Member, Population
from hepm.experience.lessons import Experience
from hepm.experience.library import Library
from hepm.graph.lessons.store import LessonChange
from hepm.llm import Answered, Client, Failed

ITERATIONS: Final = 5
"""N, meta-optimisation cycles (PRIME, table 3)."""


def evolve(
    library: Library,
    *,
    namespace: str,
    iterations: int = ITERATIONS,
    seed: int = 0,
    settings: EvolutionSettings | None = None,
    model: Client | None = None,
    held_out: HeldOut | None = None,
    dry_run: bool = False,
) -> EvolutionReport:
    """Let the experiences of a namespace evolve, and store what came of it in one change.

    Mutated and generalised experiences are retired as superseded, pruned ones as pruned; crossed ones stay. Where the
    budget is spent, what was answered is kept, and a later call with the same seed asks the rest.

    Args:
        model: Writes the children; without one they are made by counting (see `hepm.experience.evolution.operators`).
        held_out: Tasks whose runs teach no child, and must not find it worse than its parent (see
            `hepm.experience.evolution.guard`); None for no such check.
        dry_run: Tells what would change, and changes nothing. A model is asked all the same, within its budget; what it
            answered about one run is in its ledger, and costs nothing again.

    Raises:
        EndpointRefusedError: the model answers nobody. Nothing was changed.
    """
    if iterations < 1:
        raise InputError(f"iterations is {iterations}: it must be 1 or more.")
    settings = settings or EvolutionSettings()
    evolution = _Evolution(library, namespace, seed, settings, model, held_out)
    for iteration in range(1, iterations + 1):
        evolution.iterate(iteration, settings.temperature(iteration, iterations))
    return evolution.report(dry_run=dry_run)


class _Attempt(NamedTuple):
    operator: Operator
    parents: tuple[Member, ...]
    reason: str


_Made: TypeAlias = tuple[Experience | None, Became, str]
"""A child, or what became of the attempt and why."""


class _Evolution:
    """One evolution while it lasts."""

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
        self._held_out = frozenset(held_out_runs(held_out, self._population.places, seed=seed))
        self._guard = Guard(library, self._held_out, self._population, namespace=namespace, seed=seed)
        self._tried: set[tuple[Operator, frozenset[str]]] = set()
        self._plan: list[EvolutionStep] = []
        self._children: dict[str, Experience] = {}
        self._retired: dict[str, str] = {}

    def iterate(self, iteration: int, temperature: float) -> None:
        """One iteration, in memory."""
        attempts = list(self._draw(iteration, temperature))
        made = self._by_counting(attempts) if self._model is None else self._by_asking(attempts, temperature)
        self._take_in(iteration, attempts, made)
        if iteration % self._settings.prune_every == 0:
            for id, one in sorted(self._population.members.items()):
                if id not in self._children and (why := self._population.why_prune(one)):
                    self._retire(id, "pruned")
                    self._plan.append(EvolutionStep(iteration, "pruning", (id,), why, "pruned"))

    def report(self, *, dry_run: bool) -> EvolutionReport:
        """What would change; unless it is a dry run, change it."""
        rows = [one.row for one in self._library.store.lessons.list(namespace=self._namespace)]
        id = next_id(rows, self._children, self._retired) if self._children or self._retired else ""
        plan = self._plan
        if id and not dry_run:
            put = [child.row(made_by=id) for child in self._children.values()]
            change = LessonChange(put=put, retire=self._retired, by=id)
            refused = set(self._library.change(change, namespace=self._namespace).refused)
            plan = [
                replace(step, became="refused", note="its run was forgotten meanwhile")
                if step.child is not None and step.became == "kept" and step.child.id in refused
                else step
                for step in plan
            ]
        return EvolutionReport(id, tuple(plan), len(self._guard), dry_run=dry_run)

    def _draw(self, iteration: int, temperature: float) -> Iterator[_Attempt]:
        """What is tried in an iteration: one change of an experience at most, and crossovers of the others."""
        taken: set[str] = set()
        for operator in OPERATORS:
            probability = getattr(self._settings, operator) * temperature
            for id, one in sorted(self._population.members.items()):
                chance = random.Random(f"{self._seed}\n{iteration}\n{operator}\n{id}").random()
                if id in taken or chance >= probability or (attempt := self._attempt(operator, one, taken)) is None:
                    continue
                key = operator, frozenset(parent.id for parent in attempt.parents)
                if key not in self._tried:
                    self._tried.add(key)
                    taken.update([id] if operator != "crossover" else [])
                    yield attempt

    def _attempt(self, operator: Operator, one: Member, taken: set[str]) -> _Attempt | None:
        if operator == "crossover":
            found = self._population.partner(one, floor=self._library.floor, taken=taken)
            return _Attempt(operator, (one, found[0]), found[1]) if found else None
        why = self._population.why_mutate(one) if operator == "mutation" else self._population.why_generalise(one)
        return _Attempt(operator, (one,), why) if why else None

    def _shown(self, attempt: _Attempt) -> Evidence:
        """Runs that the experience was shown in, but for held-out ones."""
        if attempt.operator != "mutation":
            return Evidence()
        id, library = attempt.parents[0].id, self._library
        won, lost = (
            library.runs(
                self._population.runs_shown(id, success=success, without=self._held_out), namespace=self._namespace
            )
            for success in (True, False)
        )
        return Evidence(won, lost)

    def _by_counting(self, attempts: Sequence[_Attempt]) -> list[_Made]:
        made: list[_Made] = []
        for attempt in attempts:
            parents = [parent.experience for parent in attempt.parents]
            child = by_counting(attempt.operator, parents, self._shown(attempt))
            made.append((child, "nothing", "" if child else NOTHING[attempt.operator]))
        return made

    def _by_asking(self, attempts: Sequence[_Attempt], temperature: float) -> list[_Made]:
        assert self._model is not None
        asked = [question(one.operator, one.parents, self._shown(one), temperature=temperature) for one in attempts]
        answers = self._model.ask_all(asked, at_once=self._settings.at_once)
        results = {result.question: result for result in answers}
        made: list[_Made] = []
        for attempt, one in zip(attempts, asked, strict=True):
            result = results[one]
            if isinstance(result, Answered):
                parents = [parent.experience for parent in attempt.parents]
                child = reworded(attempt.operator, parents, result.value, self._model.endpoint.model)
                why = objection(attempt.operator, parents, child)
                made.append((None, "failed", why) if why else (child, "nothing", ""))
            else:
                failed = isinstance(result, Failed)
                made.append((None, "failed", str(result.error)) if failed else (None, "unasked", result.reason))
        return made

    def _take_in(self, iteration: int, attempts: Sequence[_Attempt], made: Sequence[_Made]) -> None:
        """Keep the children that may come, in the order they were drawn."""
        texts = list(dict.fromkeys(child.text for child, _, _ in made if child is not None))
        vectors_ND = self._population.comparable(self._library.vectors(texts)) if texts else ()
        vectors = dict(zip(texts, vectors_ND, strict=True))
        for attempt, (child, became, note) in zip(attempts, made, strict=True):
            ids = tuple(parent.id for parent in attempt.parents)
            step = EvolutionStep(iteration, attempt.operator, ids, attempt.reason, became, note=note)
            if child is not None:
                member = Member(child.id, child, vector=vectors[child.text])
                replaced = "" if attempt.operator == "crossover" else ids[0]
                step = replace(step, child=child, became="kept", note="")
                if child.id in self._population.known:
                    step = replace(step, became="nothing", note=f"{child.id} says the same")
                elif objection := self._guard.objection(member, instead_of=replaced):
                    step = replace(step, became="rejected", note=objection)
                else:
                    self._keep(member, replaced)
            self._plan.append(step)

    def _keep(self, child: Member, replaced: str) -> None:
        self._children[child.id] = child.experience
        self._population.add(child)
        self._guard.add(child)
        if replaced:
            self._retire(replaced, "superseded")

    def _retire(self, id: str, why: str) -> None:
        self._retired[id] = why
        del self._population.members[id]
        self._guard.remove(id)
