"""A library of experiences evolves: mutation, generalisation, crossover, pruning (PRIME 3.2, appendix A, table 3).

The paper gives each operator a trigger and a probability. Whether one is applied to an experience in an iteration
depends on the seed, the iteration, the operator and the experience's id alone: equal seed, library and answers give
equal results, in whatever order answers come. An operator is tried once on the same experiences.

PRIME explores between iterations. Here all iterations use the same feedback; for the paper's alternation, evolve with
one iteration after each round of runs. Vectors are compared as in a search.
"""

from __future__ import annotations

import random
import re
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np

from hepm.errors import BudgetSpentError, InputError
from hepm.experience.lessons import Experience
from hepm.experience.library import Library
from hepm.experience.operators import OPERATORS, Evidence, Member, Operator, by_counting, question, reworded
from hepm.experience.transcript import listed, moves_of, situation_text
from hepm.graph.lessons.mirror import rarity, weighted
from hepm.graph.lessons.rows import LessonRow, Showing
from hepm.graph.lessons.transaction import LessonChange
from hepm.graph.store import FloatArray
from hepm.llm import Answered, Client

ITERATIONS: Final = 5
"""N, meta-optimisation cycles (PRIME, table 3)."""

HeldOut: TypeAlias = float | Collection[str]
"""Tasks that evolution learns nothing from: a share of all, or their names."""

Place: TypeAlias = tuple[str, str]
"""Environment and task of a run."""

Became: TypeAlias = Literal["kept", "rejected", "nothing", "failed", "unasked", "refused", "pruned"]
"""The end of a step: the child is kept or "rejected" by held-out tasks; there was "nothing" to change; the model
"failed"; the budget was spent ("unasked"); a run was forgotten meanwhile ("refused"); the experience was pruned."""

_ID: Final = re.compile(r"v(\d+)-[0-9a-f]{6}")
_QUERIES: Final = 500
_EVIDENCE: Final = 40  # runs that are read for one experience
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class EvolutionSettings:
    """How experiences evolve; the numbers are those of PRIME, table 3, where it has one.

    Attributes:
        mutation, generalisation, crossover: Probability per experience, iteration, and degree of temperature.
        hottest, coldest: Meta-temperature of the first and of the last iteration; linear between. It is the model's
            temperature, and multiplies the probabilities: the first iteration has those of the paper.
        general_from: Least share of successes of an experience that is generalised.
        proven: Runs with a known outcome from which such a share counts; ours. Success in two environments counts too,
            as in the paper.
        related: Largest cosine of two experiences to cross; ours. The least one is the floor of searches.
        prune_shown, prune_after: Experiences shown in fewer runs are pruned, if at least `prune_after` runs could have
            shown them: N of "not retrieved in last N episodes", which the paper leaves open.
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
        if not 0 <= self.coldest <= self.hottest <= 2:
            raise InputError(f"temperatures fall from {self.hottest} to {self.coldest}: give 2 >= hottest >= coldest.")
        if min(self.proven, self.prune_every, self.at_once) < 1:
            raise InputError("proven, prune_every and at_once are 1 or more.")

    def temperature(self, iteration: int, iterations: int) -> float:
        """Meta-temperature of an iteration, from 1."""
        if iterations == 1:
            return self.hottest
        return round(self.hottest + (self.coldest - self.hottest) * (iteration - 1) / (iterations - 1), 3)


@dataclass(frozen=True, slots=True)
class EvolutionStep:
    """One change that evolution made, or tried.

    Attributes:
        iteration: From 1.
        of: Ids of the experiences it was applied to.
        reason: Why these.
        note: Why the child was not kept; "" if it was.
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
    """One evolution of the experiences of a namespace.

    Args:
        model: Writes the children; without one they are made by counting (see `hepm.experience.operators`).
        held_out: Tasks whose runs teach no child. A child must not lower the mean reciprocal rank of their experiences,
            as at most 500 situations of these runs find them. None for no such check.

    Attributes:
        members: Living experiences by id.
    """

    def __init__(
        self,
        library: Library,
        namespace: str,
        seed: int,
        settings: EvolutionSettings,
        model: Client | None = None,
        held_out: HeldOut | None = None,
    ) -> None:
        self._library, self._namespace, self._seed = library, namespace, seed
        self._settings, self._model = settings, model
        self._tried: set[tuple[str, frozenset[str]]] = set()
        self._plan: list[EvolutionStep] = []
        self._children: dict[str, Experience] = {}
        self._retired: dict[str, str] = {}
        runs = library.store.runs_by_task(namespace=namespace)
        self._places: dict[str, Place] = {run: (environment, task or run) for environment, task, run in runs}
        self._read_members()
        self._held_out = held_out_runs(held_out, self._places, seed=seed)
        self._queries, self._queries_QD = self._situations()
        self._ranked: dict[str, tuple[FloatArray, FloatArray]] = {}

    def _read_members(self) -> None:
        store, namespace = self._library.store.lessons, self._namespace
        lessons = [one for one in store.list(namespace=namespace) if one.row.kind == "experience"]
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
        self._shown: defaultdict[str, list[Showing]] = defaultdict(list)
        of_run: defaultdict[str, list[str]] = defaultdict(list)
        for showing in store.showings(namespace=namespace):
            self._shown[showing.lesson].append(showing)
            if showing.lesson in every:
                of_run[showing.run].append(showing.lesson)
        # The newest lesson's number of each run that was shown lessons, by their environments; "" is any.
        self._newest: defaultdict[frozenset[str], list[int]] = defaultdict(list)
        for ids in of_run.values():
            environments = frozenset(place for id in ids for place in (every[id].places or {""}))
            insort(self._newest[environments], max(self._seq[id] for id in ids))

    def comparable(self, vectors_ND: FloatArray) -> FloatArray:
        """Weight vectors as a search among these experiences does."""
        return vectors_ND if self._weights_D is None else weighted(vectors_ND, self._weights_D)

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
        return EvolutionReport(id, tuple(plan))

    def _iterate(self, iteration: int, temperature: float) -> None:
        made = self._make(list(self._draw(iteration, temperature)), temperature)
        texts = list(dict.fromkeys(step.child.text for step in made if step.child is not None))
        vectors_ND = self.comparable(self._library.vectors(texts)) if texts else ()
        vectors = dict(zip(texts, vectors_ND, strict=True))
        for step in made:
            child = step.child
            member = child and Member(child.id, child, vector=vectors[child.text])
            self._plan.append(self._take_in(step, member) if member else step)
        if iteration % self._settings.prune_every == 0:
            for id, one in sorted(self.members.items()):
                if id not in self._children and (why := self.why_prune(one)):
                    self._retire(id, "pruned")
                    self._plan.append(EvolutionStep(iteration, "pruning", (id,), why, "pruned"))

    def _draw(self, iteration: int, temperature: float) -> Iterator[EvolutionStep]:
        """The steps to try in an iteration: at most one change of an experience, and crossovers of the others."""
        taken: set[str] = set()
        for operator in OPERATORS:
            probability = getattr(self._settings, operator) * temperature
            for id, one in sorted(self.members.items()):
                chance = random.Random(f"{self._seed}\n{iteration}\n{operator}\n{id}").random()
                if id in taken or chance >= probability:
                    continue
                of, why = (id,), ""
                if operator == "mutation":
                    why = self.why_mutate(one)
                elif operator == "generalisation":
                    why = self.why_generalise(one)
                elif found := self.partner(one, taken):
                    of, why = (id, found[0].id), found[1]
                if why and (operator, frozenset(of)) not in self._tried:
                    self._tried.add((operator, frozenset(of)))
                    taken.update([id] if operator != "crossover" else [])
                    yield EvolutionStep(iteration, operator, of, why, "nothing")

    # Triggers

    def why_mutate(self, one: Member) -> str:
        """Why an experience is due: a run that was shown it failed; "" if it is not."""
        return one.record if one.uses.successes < one.uses.uses else ""

    def why_generalise(self, one: Member) -> str:
        """Why an experience is due: it succeeds often, in several environments or many runs; "" if it is not."""
        if not one.uses.uses or one.success < self._settings.general_from or not one.places:
            return ""
        environments = {self._places[run][0] for run in self._runs_shown(one.id, success=True)} - {""}
        if one.uses.uses < self._settings.proven and len(environments) < 2:
            return ""
        return one.record + (f", in {listed(sorted(environments))}" if environments else "")

    def why_prune(self, one: Member) -> str:
        """Why an experience should be retired: it fails, or is rarely shown; "" if it should stay.

        A run could have shown an experience if it was shown one of the same environments that is as new, or newer.
        Clocks are not used: a run may have been recorded long before it was stored.
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
        """The most similar experience to cross with, and why; None if there is none.

        Both have the same zone and stage, share an environment and, if both name tools, a tool; they resemble each
        other without equal lessons.
        """
        fitting = [
            (-cosine, id)
            for id, other in self.members.items()
            if id not in taken and one.vector is not None and other.vector is not None and _complement(one, other)
            if self._library.floor <= (cosine := float(one.vector @ other.vector)) <= self._settings.related
        ]
        if not fitting:
            return None
        cosine, id = min(fitting)
        tools = sorted(set(one.experience.tools) & set(self.members[id].experience.tools))
        return self.members[id], f"alike by {-cosine:.2f}" + (f", both about {listed(tools)}" if tools else "")

    def _runs_shown(self, id: str, *, success: bool, without: Collection[str] = ()) -> list[str]:
        known = (shown.run for shown in self._shown[id] if shown.success is success and shown.run in self._places)
        return sorted(run for run in known if run not in without)[:_EVIDENCE]

    # Children

    def _make(self, steps: Sequence[EvolutionStep], temperature: float) -> list[EvolutionStep]:
        """The steps with their children, made by counting or by the model."""
        tasks = [(step, [self.members[id] for id in step.of], self._evidence(step)) for step in steps]
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
        won, lost = (self._runs_shown(step.of[0], success=success, without=self._held_out) for success in (True, False))
        return Evidence(*(self._library.runs(runs, namespace=self._namespace) for runs in (won, lost)))

    def _take_in(self, step: EvolutionStep, child: Member) -> EvolutionStep:
        """Keep a child if it is new and held-out runs do not object."""
        replaced = "" if step.operator == "crossover" else step.of[0]
        if child.id in self._known:
            return replace(step, note=f"{child.id} has the same words")
        if why := self._objection(child, instead_of=replaced):
            return replace(step, became="rejected", note=why)
        self._children[child.id] = child.experience
        self._known.add(child.id)
        self.members[child.id] = child
        if replaced:
            self._retire(replaced, "superseded")
        return replace(step, became="kept")

    def _retire(self, id: str, why: str) -> None:
        self._retired[id] = why
        del self.members[id]

    # Held-out tasks

    def _situations(self) -> tuple[list[Place], FloatArray]:
        queries = sorted(
            {
                (self._places[run.id], situation_text(run.environment, move.known))
                for run in self._library.runs(self._held_out, namespace=self._namespace)
                for move in moves_of(run)
            }
        )
        if len(queries) > _QUERIES:
            queries = sorted(random.Random(self._seed).sample(queries, _QUERIES))
        if not queries:
            return [], np.empty((0, 0), dtype=np.float32)
        return [place for place, _ in queries], self.comparable(self._library.vectors([text for _, text in queries]))

    def _objection(self, child: Member, *, instead_of: str) -> str:
        """Why a child may not come, or may not replace a parent; "" if it may."""
        if not self._queries:
            return ""
        before = self._reciprocal_rank(list(self.members.values()))
        after = self._reciprocal_rank([*(one for id, one in self.members.items() if id != instead_of), child])
        if after >= before - _ROUNDING:
            return ""
        return f"held-out runs find experiences of their task worse: mean 1/rank {after:.3f} instead of {before:.3f}"

    def _reciprocal_rank(self, members: Sequence[Member]) -> float:
        """Mean over the queries of 1 / rank of the best experience of the query's task; 0 without one."""
        cosines_MQ, own_MQ = (np.stack(columns) for columns in zip(*map(self._cosines, members), strict=True))
        best_Q = own_MQ.max(axis=0)
        return float(np.where(np.isfinite(best_Q), 1.0 / (1.0 + (cosines_MQ > best_Q).sum(axis=0)), 0.0).mean())

    def _cosines(self, member: Member) -> tuple[FloatArray, FloatArray]:
        """With each query, -inf if the experience does not apply; the same, -inf too if it is of another task."""
        if member.id not in self._ranked:
            tasks = {self._places[source.run] for source in member.experience.sources if source.run in self._places}
            cosines_Q = np.full(len(self._queries), -np.inf, dtype=np.float32)
            if member.vector is not None:
                # As in `Experiences.search`.
                applies = [not member.places or environment in {"", *member.places} for environment, _ in self._queries]
                cosines_Q = np.where(np.array(applies), self._queries_QD @ member.vector, cosines_Q)
            kin_Q = np.array([place in tasks for place in self._queries])
            self._ranked[member.id] = cosines_Q, np.where(kin_Q, cosines_Q, np.float32(-np.inf))
        return self._ranked[member.id]


def _with(step: EvolutionStep, made: Experience | str, otherwise: Became) -> EvolutionStep:
    """The step with its child; or with the reason why it has none."""
    return replace(step, became=otherwise, note=made) if isinstance(made, str) else replace(step, child=made)


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


def held_out_runs(held_out: HeldOut | None, places: Mapping[str, Place], *, seed: int) -> list[str]:
    """Stored runs of the held-out tasks, by id; the seed alone decides which tasks make a share.

    Raises:
        InputError: the share is not between 0 and 1, or no run has a named task.
    """
    if held_out is None:
        return []
    if isinstance(held_out, int | float):
        if not 0 < held_out < 1:
            raise InputError(f"held_out is {held_out}: give a share of the tasks between 0 and 1, or their names.")
        chance = {place: random.Random("\n".join((str(seed), *place))).random() for place in set(places.values())}
        return sorted(run for run, place in places.items() if chance[place] < held_out)
    names = {held_out} if isinstance(held_out, str) else set(held_out)
    if unknown := sorted(names.difference(task for _, task in places.values())):
        raise InputError(f"no stored run is of the task {unknown[0]!r}, which is to be held out.")
    return sorted(run for run, place in places.items() if place[1] in names)


# Past evolutions


@dataclass(frozen=True, slots=True)
class PastEvolution:
    """An evolution, as far as the store still knows it.

    Attributes:
        made: Experiences that it made, by operator, retired ones included.
        superseded, pruned: How many it retired.
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
