"""What evolution is told and what it tells: settings, the steps it took, and their sum (PRIME 3.2, appendix A)."""

from __future__ import annotations

import random
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hepm.errors import InputError
from hepm.experience.lessons import Experience
from hepm.experience.library import Library
from hepm.experience.operators import (
    NOTHING,
    OPERATORS,
    Evidence,
    Member,
    Operator,
    by_counting,
    objection,
    question,
    reworded,
)
from hepm.experience.transcript import listed, moves_of, situation_text
from hepm.graph.lessons.mirror import rarity, weighted
from hepm.graph.lessons.rows import LessonRow, Showing, StoredLesson, Uses
from hepm.graph.lessons.store import LessonChange
from hepm.graph.store import FloatArray
from hepm.llm import Answered, Client, Failed

Became: TypeAlias = Literal["kept", "rejected", "nothing", "failed", "unasked", "refused", "pruned"]
"""What became of a step.

- kept: the child is in the library.
- rejected: it is found worse than its parent on held-out tasks.
- nothing: the operator had nothing to change, or said what another experience says.
- failed: the model gave no usable answer.
- unasked: the budget had no room for the question.
- refused: its run was forgotten meanwhile.
- pruned: the experience is found no more.
"""


@dataclass(frozen=True, slots=True)
class EvolutionSettings:
    """How experiences evolve; the numbers are those of PRIME, table 3, where it has one.

    Attributes:
        mutation, generalisation, crossover: Probability per experience, iteration, and degree of temperature.
        hottest, coldest: Meta-temperature of the first and of the last iteration; linear between. It is the model's
            temperature, and scales the probabilities: so the first iteration has those of the paper, and later ones
            change less and less.
        general_from: Experiences that succeed at least so often are generalised.
        proven: Runs with a known outcome that make such a share worth believing; ours. Success in two environments
            does too, as the paper has it.
        related: Cosines above this are too alike to cross: the two say the same; ours. From below, the floor of
            searches holds.
        prune_every: Iterations.
        prune_shown: Experiences shown in fewer runs are pruned,
        prune_after: once there were so many runs that could have shown them: N of "not retrieved in last N episodes",
            which the paper leaves open.
        prune_success: Experiences that succeed less often are pruned, once `proven`.
        at_once: Questions to a model under way at the same time.
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
        if not 0 <= self.coldest <= self.hottest <= 2:
            raise InputError(f"temperatures fall from {self.hottest} to {self.coldest}: give 2 >= hottest >= coldest.")
        if min(self.proven, self.prune_every, self.at_once) < 1:
            raise InputError("proven, prune_every and at_once are 1 or more.")

    def temperature(self, iteration: int, iterations: int) -> float:
        """Of an iteration, from 1."""
        if iterations == 1:
            return self.hottest
        return round(self.hottest + (self.coldest - self.hottest) * (iteration - 1) / (iterations - 1), 3)


@dataclass(frozen=True, slots=True)
class EvolutionStep:
    """One thing that evolution did, or tried.

    Attributes:
        iteration: From 1.
        of: Ids of the experiences that it was done to.
        reason: Why to them.
        child: What came of it; None where nothing did.
        note: Why that is not kept; "" where it is.
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
    """What became of an evolution.

    Attributes:
        id: What it can be undone by; "" where nothing changed. Of a dry run, what it would have been.
        plan: All steps in order.
        queries: Situations of held-out tasks that children were measured by; 0 for no guard.
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
        """How many steps became so."""
        return sum(step.became == became for step in self.plan)


_EVIDENCE: Final = 40  # runs that are read for one experience


class RunPlace(NamedTuple):
    """Where a stored run belongs."""

    environment: str
    task: str


class Population:
    """Experiences of one namespace as they were read, with what an evolution makes of them.

    Attributes:
        known: Ids of all experiences, retired ones too, and of children.
        members: Living experiences by id.
        places: Where each stored run belongs.
    """

    def __init__(self, library: Library, namespace: str, settings: EvolutionSettings) -> None:
        store = library.store
        lessons = [one for one in store.lessons.list(namespace=namespace) if one.row.kind == "experience"]
        embedded = {one.row.id: one.vector for one in lessons if one.vector is not None}
        raw_ND = np.stack(list(embedded.values())).astype(np.float16) if embedded else None
        self._weights_D = None if raw_ND is None else rarity(raw_ND)
        vectors = {} if raw_ND is None else dict(zip(embedded, self.comparable(raw_ND.astype(np.float32)), strict=True))
        every = {
            one.row.id: Member(one.row.id, Experience.of(one.row), one.uses, vectors.get(one.row.id)) for one in lessons
        }
        self.known = set(every)
        self.members = {one.row.id: every[one.row.id] for one in lessons if one.row.live}
        self.places = {
            run: RunPlace(place, task or run) for place, task, run in store.runs_by_task(namespace=namespace)
        }
        self._settings = settings
        self._shown: defaultdict[str, list[Showing]] = defaultdict(list)
        for showing in store.lessons.showings(namespace=namespace):
            self._shown[showing.lesson].append(showing)
        self._seq = {one.row.id: one.seq for one in lessons}
        self._newest = self._newest_shown(lessons, every)

    def comparable(self, vectors_ND: FloatArray) -> FloatArray:
        """Vectors as a search among the experiences that were read compares them."""
        return vectors_ND if self._weights_D is None else weighted(vectors_ND, self._weights_D)

    def add(self, member: Member) -> None:
        """Take a child in."""
        self.known.add(member.id)
        self.members[member.id] = member

    def runs_shown(self, id: str, *, success: bool, without: Collection[str] = ()) -> list[str]:
        """Stored runs that an experience was shown in and that ended so, by id, a bounded number."""
        found = sorted(s.run for s in self._shown[id] if s.success is success and s.run in self.places)
        return [run for run in found if run not in without][:_EVIDENCE]

    def why_mutate(self, one: Member) -> str:
        """Why an experience is due: it was shown, and a run with it failed; "" where it is not."""
        return _record(one.uses) if one.uses.successes < one.uses.uses else ""

    def why_generalise(self, one: Member) -> str:
        """Why an experience is due: it succeeds often, and in several environments or many runs; "" where it is not."""
        if not one.uses.uses or one.success < self._settings.general_from or not one.places:
            return ""
        places = {self.places[run].environment for run in self.runs_shown(one.id, success=True)} - {""}
        if one.uses.uses < self._settings.proven and len(places) < 2:
            return ""
        return _record(one.uses) + (f", in {listed(sorted(places))}" if places else "")

    def why_prune(self, one: Member) -> str:
        """Why an experience is no longer worth its place; "" where it is."""
        settings, uses = self._settings, one.uses
        if uses.uses >= settings.proven and one.success < settings.prune_success:
            return _record(uses)
        if uses.shown < settings.prune_shown and (missed := self._opportunities(one)) >= settings.prune_after:
            return f"shown in {uses.shown} of at least {missed} runs that could have shown it"
        return ""

    def partner(self, one: Member, *, floor: float, taken: Collection[str]) -> tuple[Member, str] | None:
        """The experience nearest to one that it may be crossed with, and why; None where there is none.

        Both are of one zone and stage, apply in a common environment, are about a common tool where both are about any,
        and resemble each other without saying the same.
        """
        if one.vector is None:
            return None
        cosines = {
            id: float(one.vector @ other.vector)
            for id, other in self.members.items()
            if id not in taken and other.vector is not None and _complement(one, other)
        }
        fitting = [(-cosine, id) for id, cosine in cosines.items() if floor <= cosine <= self._settings.related]
        if not fitting:
            return None
        cosine, id = min(fitting)
        tools = sorted(set(one.experience.tools) & set(self.members[id].experience.tools))
        return self.members[id], f"alike by {-cosine:.2f}" + (f", both about {listed(tools)}" if tools else "")

    def _newest_shown(
        self, lessons: list[StoredLesson], every: Mapping[str, Member]
    ) -> dict[frozenset[frozenset[str]], list[int]]:
        """Of the runs that were shown lessons of the same environments: the place in order of the newest of these."""
        of_run: defaultdict[str, list[str]] = defaultdict(list)
        for one in lessons:
            for showing in self._shown.get(one.row.id, ()):
                of_run[showing.run].append(one.row.id)
        newest: defaultdict[frozenset[frozenset[str]], list[int]] = defaultdict(list)
        for ids in of_run.values():
            newest[frozenset(every[id].places for id in ids)].append(max(self._seq[id] for id in ids))
        return {places: sorted(seqs) for places, seqs in newest.items()}

    def _opportunities(self, one: Member) -> int:
        """In how many runs an experience could have been shown, as far as that is certain.

        A run that was shown an experience took place when that was there, and so were all that arrived before it. What
        counts are runs of its environments that were shown it, or one that arrived later. Clocks are not asked: a run
        may have been recorded long before it was stored. So nothing counts against what has just arrived.
        """
        seq, own = self._seq.get(one.id), one.places
        if seq is None:
            return 0
        return sum(
            len(seqs) - bisect_left(seqs, seq)
            for places, seqs in self._newest.items()
            if any(not own or not theirs or own & theirs for theirs in places)
        )


def _record(uses: Uses) -> str:
    return f"{uses.successes} of {uses.uses} runs with it succeeded"


def _complement(one: Member, other: Member) -> bool:
    mine, its = one.experience, other.experience
    return (
        one.id != other.id
        and {one.id, other.id}.isdisjoint(parent.id for parent in (*mine.parents, *its.parents))
        and (mine.zone, mine.stage) == (its.zone, its.stage)
        and mine.lesson != its.lesson
        and (not one.places or not other.places or not one.places.isdisjoint(other.places))
        and (not mine.tools or not its.tools or not set(mine.tools).isdisjoint(its.tools))
    )


HeldOut: TypeAlias = float | Collection[str]
"""Tasks that nothing is learned from while experiences evolve: a share of all, or their names."""

QUERIES: Final = 500
_READ_AT_ONCE: Final = 100
_LEAST: Final = 1e-9  # what sums may differ by

Column: TypeAlias = tuple[FloatArray, NDArray[np.bool_]]
"""An experience's cosine with each query, minus infinity where it does not apply, and whether it is of its task."""


def held_out_runs(held_out: HeldOut | None, places: Mapping[str, RunPlace], *, seed: int) -> list[str]:
    """Stored runs of the held-out tasks, by id; which tasks make a share depends on the seed alone.

    Raises:
        InputError: the share is none, or no run is of a task that is named.
    """
    if held_out is None:
        return []
    if isinstance(held_out, int | float):
        if not 0 < held_out < 1:
            raise InputError(f"held_out is {held_out}: give a share of the tasks between 0 and 1, or their names.")
        chance = {place: random.Random("\n".join((str(seed), *place))).random() for place in set(places.values())}
        return sorted(run for run, place in places.items() if chance[place] < held_out)
    names = {held_out} if isinstance(held_out, str) else set(held_out)
    if unknown := sorted(names.difference(place.task for place in places.values())):
        raise InputError(f"no stored run is of the task {unknown[0]!r}, which is to be held out.")
    return sorted(run for run, place in places.items() if place.task in names)


class Guard:
    """Compares a library with and without a child. Without a held-out run it lets everything pass.

    It asks with the situations before each move of the runs; of very many, with some by chance.
    """

    def __init__(
        self, library: Library, runs: Collection[str], population: Population, *, namespace: str, seed: int
    ) -> None:
        self._population = population
        places, names = population.places, sorted(runs)
        queries = {
            (places[run.id], situation_text(run.environment, move.known))
            for start in range(0, len(names), _READ_AT_ONCE)
            for run in library.runs(names[start : start + _READ_AT_ONCE], namespace=namespace)
            for move in moves_of(run)
        }
        chosen = sorted(queries)
        if len(chosen) > QUERIES:
            chosen = sorted(random.Random(seed).sample(chosen, QUERIES))
        self._places = [place for place, _ in chosen]
        self._vectors_QD = population.comparable(library.vectors([text for _, text in chosen])) if chosen else None
        self._columns: dict[str, Column] = {}
        for member in population.members.values():
            self.add(member)

    def __len__(self) -> int:
        return len(self._places)

    def add(self, member: Member) -> None:
        """An experience is in the library."""
        if self._places:
            self._columns[member.id] = self._column(member)

    def remove(self, id: str) -> None:
        """An experience is no longer found."""
        self._columns.pop(id, None)

    def objection(self, child: Member, *, instead_of: str) -> str:
        """Why a child may not come, or take the place of a parent ("" for none); "" where it may."""
        if not self._places:
            return ""
        others = [column for id, column in self._columns.items() if id != instead_of]
        old, new = self._columns.get(instead_of), self._column(child)
        was, now = _Found([*others, *([old] if old else [])]), _Found([*others, new])
        if old is not None and old[1].any():
            before = float(was.reciprocal_ranks(old[0])[old[1]].mean())
            after = float(now.reciprocal_ranks(new[0])[old[1]].mean())
            if after < before - _LEAST:
                return f"held-out runs find it worse than its parent: mean 1/rank {after:.3f} instead of {before:.3f}"
        before, after = was.best_of_task(), now.best_of_task()
        if after < before - _LEAST:
            return (
                f"held-out runs find experiences of their task worse with it: mean 1/rank {after:.3f} "
                f"instead of {before:.3f}"
            )
        return ""

    def _column(self, member: Member) -> Column:
        known = self._population.places
        tasks = {known[source.run] for source in member.experience.sources if source.run in known}
        kin_Q = np.array([place in tasks for place in self._places])
        if member.vector is None or self._vectors_QD is None:
            return np.full(len(self), -np.inf, dtype=np.float32), kin_Q
        here = {"", *member.experience.conditions.environments}  # as `Experiences.search` has it
        applies_Q = np.array([len(here) == 1 or place.environment in here for place in self._places])
        return np.where(applies_Q, self._vectors_QD @ member.vector, np.float32(-np.inf)), kin_Q


class _Found:
    """How a library's experiences rank for each query."""

    def __init__(self, columns: list[Column]) -> None:
        self._cosines_MQ = np.stack([cosines_Q for cosines_Q, _ in columns])
        self._kin_MQ = np.stack([kin_Q for _, kin_Q in columns])

    def reciprocal_ranks(self, own_Q: FloatArray) -> FloatArray:
        """1 / rank of a cosine among those of all experiences, per query; 0 where it is not found."""
        above_Q = (self._cosines_MQ > own_Q).sum(axis=0)
        return np.where(np.isfinite(own_Q), 1.0 / (1.0 + above_Q), 0.0).astype(np.float32)

    def best_of_task(self) -> float:
        """Mean reciprocal rank of the best experience of each query's task; a query that has none counts 0."""
        best_Q = np.where(self._kin_MQ, self._cosines_MQ, np.float32(-np.inf)).max(axis=0)
        return float(self.reciprocal_ranks(best_Q).mean())


_ID: Final = re.compile(r"v(\d+)-[0-9a-f]{6}")


@dataclass(frozen=True, slots=True)
class PastEvolution:
    """What is left of an evolution.

    Attributes:
        made: Experiences that it made, by operator, also those that are retired by now.
        superseded: Experiences that its children took the place of.
        pruned: Experiences that it pruned.
        living: Children of it that are found.
    """

    id: str
    made: Mapping[str, int]
    superseded: int
    pruned: int
    living: int


class Undone(NamedTuple):
    """What undoing an evolution changed, by id: experiences found again, and children that are gone."""

    revived: tuple[str, ...]
    dropped: tuple[str, ...]


def evolutions(rows: Iterable[LessonRow]) -> list[PastEvolution]:
    """Those that made or retired one of the lessons, in order."""
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
        for id in sorted(ids, key=_order)
    ]


def next_id(rows: Iterable[LessonRow], put: Iterable[str], retire: Iterable[str]) -> str:
    """The name of a new evolution: its number, and a hash of what it changes.

    No clock is in it: the same evolution of the same library has the same name, and one that took the number of another
    that was undone has another name unless it does the same.
    """
    number = 1 + max((_order(id)[0] for row in rows for id in (row.made_by, row.retired_by)), default=0)
    changes = "\n".join((*sorted(put), "", *sorted(retire)))
    return f"v{number:04d}-{blake2b(changes.encode('utf-8', 'replace'), digest_size=3).hexdigest()}"


def undo(library: Library, evolution: str, *, namespace: str) -> Undone:
    """Take back all that an evolution did: what it retired is found again, and its children are gone.

    Raises:
        InputError: no such evolution, or a later one built on it.
    """
    rows = [one.row for one in library.store.lessons.list(namespace=namespace) if one.row.kind == "experience"]
    known = [past.id for past in evolutions(rows)]
    if evolution not in known:
        told = f"known are {', '.join(known)}" if known else "there is none to undo"
        raise InputError(f"no evolution {evolution!r} in {namespace!r}: {told}.")
    children = {row.id: None for row in rows if row.made_by == evolution}
    built_on = {row.made_by for row in rows if any(parent.id in children for parent in row.parents)}
    built_on |= {row.retired_by for row in rows if row.id in children}
    if later := max((id for id in built_on if _ID.fullmatch(id) and id != evolution), key=_order, default=""):
        raise InputError(f"{evolution} cannot be undone: {later} built on what it made. Undo {later} first.")
    retired = tuple(row.id for row in rows if row.retired_by == evolution and row.id not in children)
    library.change(LessonChange(revive=retired, drop=tuple(children)), namespace=namespace)
    return Undone(retired, tuple(children))


def _order(id: str) -> tuple[int, str]:
    found = _ID.fullmatch(id)
    return (int(found[1]) if found else 0, id)


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
        model: Writes the children; without one they are made by counting (see `hepm.experience.operators`).
        held_out: Tasks whose runs teach no child, and must not find it worse than its parent (see
            `hepm.experience.evolution`); None for no such check.
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
