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
from typing import Final, NamedTuple

from hepm.errors import InputError
from hepm.experience.evolution import model_operators
from hepm.experience.evolution.guard import Guard, HeldOut, held_out_runs
from hepm.experience.evolution.history import next_id
from hepm.experience.evolution.model_operators import Reworded
from hepm.experience.evolution.operators import Evidence, crossed, generalised, sharpened
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
from hepm.llm import Answered, Client, Failed, Question, Result

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
    evolution = _Evolution(library, namespace, seed, settings or EvolutionSettings(), model, held_out)
    evolution.run(iterations)
    return evolution.report() if dry_run else evolution.store()


class _Attempt(NamedTuple):
    iteration: int
    operator: Operator
    parents: tuple[Member, ...]
    reason: str


class _Made(NamedTuple):
    child: Experience | None
    became: Became = "nothing"
    note: str = ""


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
        self._library = library
        self._namespace = namespace
        self._seed = seed
        self._settings = settings
        self._model = model
        self._population = Population.read(library, namespace, settings)
        self._held_out = frozenset(held_out_runs(held_out, self._population.places, seed=seed))
        self._guard = Guard.of(library, self._held_out, self._population, namespace=namespace, seed=seed)
        self._tried: set[tuple[Operator, tuple[str, ...]]] = set()
        self._plan: list[EvolutionStep] = []
        self._children: dict[str, Experience] = {}
        self._retired: dict[str, str] = {}

    def run(self, iterations: int) -> None:
        """All iterations, in memory."""
        for iteration in range(1, iterations + 1):
            temperature = self._settings.temperature(iteration, iterations)
            attempts = list(self._draw(iteration, temperature))
            made = self._by_counting(attempts) if self._model is None else self._by_asking(attempts, temperature)
            self._settle(attempts, made)
            if iteration % self._settings.prune_every == 0:
                self._prune(iteration)

    def report(self) -> EvolutionReport:
        """What would change."""
        rows = [one.row for one in self._library.store.lessons.list(namespace=self._namespace)]
        changes = bool(self._children or self._retired)
        id = next_id(rows, self._children, self._retired) if changes else ""
        return EvolutionReport(id, tuple(self._plan), len(self._guard), dry_run=True)

    def store(self) -> EvolutionReport:
        """Change it."""
        report = self.report()
        refused: set[str] = set()
        if report.id:
            rows = [child.row(made_by=report.id) for child in self._children.values()]
            change = LessonChange(put=rows, retire=self._retired, by=report.id)
            refused.update(self._library.change(change, namespace=self._namespace).refused)
        plan = tuple(
            replace(step, became="refused", note="its run was forgotten meanwhile")
            if step.child is not None and step.became == "kept" and step.child.id in refused
            else step
            for step in report.plan
        )
        return EvolutionReport(report.id, plan, report.queries)

    def _draw(self, iteration: int, temperature: float) -> Iterator[_Attempt]:
        """What is tried in an iteration: one change of an experience at most, and crossovers of the others."""
        taken: set[str] = set()
        for operator in OPERATORS:
            for id, one in sorted(self._population.members.items()):
                if id in taken or not self._chosen(iteration, operator, id, temperature):
                    continue
                attempt = self._attempt(iteration, operator, one, taken)
                key = attempt and (operator, tuple(sorted(parent.id for parent in attempt.parents)))
                if attempt is None or key is None or key in self._tried:
                    continue
                self._tried.add(key)
                if operator != "crossover":
                    taken.add(id)
                yield attempt

    def _chosen(self, iteration: int, operator: Operator, id: str, temperature: float) -> bool:
        chance = random.Random(f"{self._seed}\n{iteration}\n{operator}\n{id}").random()
        return chance < self._settings.probability(operator) * temperature

    def _attempt(self, iteration: int, operator: Operator, one: Member, taken: set[str]) -> _Attempt | None:
        if operator == "crossover":
            found = self._population.partner(one, floor=self._library.floor, taken=taken)
            return _Attempt(iteration, operator, (one, found[0]), found[1]) if found else None
        why = self._population.why_mutate(one) if operator == "mutation" else self._population.why_generalise(one)
        return _Attempt(iteration, operator, (one,), why) if why else None

    def _shown(self, attempt: _Attempt) -> Evidence:
        """Runs that the experience was shown in, but for held-out ones."""
        if attempt.operator != "mutation":
            return Evidence()
        id = attempt.parents[0].id
        won = self._population.runs_shown(id, success=True, without=self._held_out)
        lost = self._population.runs_shown(id, success=False, without=self._held_out)
        return Evidence(
            self._library.runs(won, namespace=self._namespace), self._library.runs(lost, namespace=self._namespace)
        )

    def _by_counting(self, attempts: Sequence[_Attempt]) -> list[_Made]:
        made: list[_Made] = []
        for attempt in attempts:
            one = attempt.parents[0].experience
            if attempt.operator == "mutation":
                child, note = sharpened(one, self._shown(attempt)), "its runs do not tell where it helps"
            elif attempt.operator == "generalisation":
                child, note = generalised(one), "its words hold nothing particular"
            else:
                child, note = crossed(one, attempt.parents[1].experience), "one says what the other says"
            made.append(_Made(child, note="" if child else note))
        return made

    def _by_asking(self, attempts: Sequence[_Attempt], temperature: float) -> list[_Made]:
        assert self._model is not None
        asked: list[Question[Reworded]] = []

        def questions() -> Iterator[Question[Reworded]]:
            for attempt in attempts:
                asked.append(
                    model_operators.question(
                        attempt.operator, attempt.parents, self._shown(attempt), temperature=temperature
                    )
                )
                yield asked[-1]

        answers = self._model.ask_all(questions(), at_once=self._settings.at_once)
        results = {result.question: result for result in answers}
        name = self._model.endpoint.model
        return [_told(attempt, results[one], name) for attempt, one in zip(attempts, asked, strict=True)]

    def _settle(self, attempts: Sequence[_Attempt], made: Sequence[_Made]) -> None:
        """Take in the children that may come, in the order they were drawn."""
        texts = list(dict.fromkeys(one.child.text for one in made if one.child is not None))
        vectors_ND = self._population.comparable(self._library.vectors(texts)) if texts else ()
        vectors = dict(zip(texts, vectors_ND, strict=True))
        for attempt, one in zip(attempts, made, strict=True):
            became, note = one.became, one.note
            if one.child is not None:
                child = Member(one.child.id, one.child, vector=vectors[one.child.text])
                became, note = self._judged(attempt, child)
                if became == "kept":
                    self._keep(attempt, child)
            ids = tuple(parent.id for parent in attempt.parents)
            self._plan.append(
                EvolutionStep(attempt.iteration, attempt.operator, ids, attempt.reason, became, one.child, note)
            )

    def _judged(self, attempt: _Attempt, child: Member) -> tuple[Became, str]:
        if child.id in self._population.known:
            return "nothing", f"{child.id} says the same"
        instead_of = None if attempt.operator == "crossover" else attempt.parents[0].id
        objection = self._guard.objection(child, instead_of=instead_of)
        return ("rejected", objection) if objection else ("kept", "")

    def _keep(self, attempt: _Attempt, child: Member) -> None:
        self._children[child.id] = child.experience
        self._population.add(child)
        self._guard.add(child)
        if attempt.operator != "crossover":
            self._retire(attempt.parents[0].id, "superseded")

    def _prune(self, iteration: int) -> None:
        for id, one in sorted(self._population.members.items()):
            why = "" if id in self._children else self._population.why_prune(one)
            if why:
                self._retire(id, "pruned")
                self._plan.append(EvolutionStep(iteration, "pruning", (id,), why, "pruned"))

    def _retire(self, id: str, why: str) -> None:
        self._retired[id] = why
        self._population.remove(id)
        self._guard.remove(id)


def _told(attempt: _Attempt, result: Result[Reworded], model: str) -> _Made:
    """What a model's answer makes of an attempt."""
    if isinstance(result, Failed):
        return _Made(None, "failed", str(result.error))
    if not isinstance(result, Answered):
        return _Made(None, "unasked", result.reason)
    parents = [parent.experience for parent in attempt.parents]
    child = model_operators.reworded(attempt.operator, parents, result.value, model)
    if objection := model_operators.objection(attempt.operator, parents, child):
        return _Made(None, "failed", objection)
    return _Made(child)
