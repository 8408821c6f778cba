"""The experiences of a library during an evolution: which are due for what, and whether a child may replace its parent.

Vectors are compared as in a search.
"""

from __future__ import annotations

import random
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hepm.errors import InputError
from hepm.experience.lessons import Experience
from hepm.experience.library import Library
from hepm.experience.operators import OPERATORS, Member
from hepm.experience.transcript import listed, moves_of, situation_text
from hepm.graph.lessons.mirror import rarity, weighted
from hepm.graph.lessons.rows import Showing
from hepm.graph.store import FloatArray

HeldOut: TypeAlias = float | Collection[str]
"""Tasks that evolution learns nothing from: a share of all, or their names."""

QUERIES: Final = 500
_READ_AT_ONCE: Final = 100
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
        prune_every: Iterations between prunings.
        prune_shown: Experiences shown in fewer runs are pruned,
        prune_after: if at least so many runs could have shown them: N of "not retrieved in last N episodes", which the
            paper leaves open.
        prune_success: Experiences with a lower share of successes are pruned, once `proven`.
        at_once: Concurrent questions to a model.
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


class RunPlace(NamedTuple):
    """Environment and task of a stored run."""

    environment: str
    task: str


class Population:
    """The experiences of one namespace during an evolution.

    Attributes:
        known: Ids of all experiences, retired ones and children included.
        members: Living experiences by id.
        places: Environment and task of each stored run.
    """

    def __init__(self, library: Library, namespace: str, settings: EvolutionSettings) -> None:
        lessons = [one for one in library.store.lessons.list(namespace=namespace) if one.row.kind == "experience"]
        embedded = {one.row.id: one.vector for one in lessons if one.vector is not None}
        raw_ND = np.stack(list(embedded.values())).astype(np.float16) if embedded else None
        self._weights_D = None if raw_ND is None else rarity(raw_ND)
        vectors = {} if raw_ND is None else dict(zip(embedded, self.comparable(raw_ND.astype(np.float32)), strict=True))
        every = {
            one.row.id: Member(one.row.id, Experience.of(one.row), one.uses, vectors.get(one.row.id)) for one in lessons
        }
        self.known = set(every)
        self.members = {one.row.id: every[one.row.id] for one in lessons if one.row.live}
        runs = library.store.runs_by_task(namespace=namespace)
        self.places = {run: RunPlace(place, task or run) for place, task, run in runs}
        self._settings = settings
        self._seq = {one.row.id: one.seq for one in lessons}
        self._shown: defaultdict[str, list[Showing]] = defaultdict(list)
        of_run: defaultdict[str, list[str]] = defaultdict(list)
        for showing in library.store.lessons.showings(namespace=namespace):
            self._shown[showing.lesson].append(showing)
            if showing.lesson in every:
                of_run[showing.run].append(showing.lesson)
        # Of the runs that were shown lessons of the same environments: the newest lesson's number, for each run.
        self._newest: defaultdict[frozenset[frozenset[str]], list[int]] = defaultdict(list)
        for ids in of_run.values():
            insort(self._newest[frozenset(every[id].places for id in ids)], max(self._seq[id] for id in ids))

    def comparable(self, vectors_ND: FloatArray) -> FloatArray:
        """Weight vectors as a search among these experiences does."""
        return vectors_ND if self._weights_D is None else weighted(vectors_ND, self._weights_D)

    def runs_shown(self, id: str, *, success: bool, without: Collection[str] = ()) -> list[str]:
        """Stored runs with this outcome that were shown an experience, by id; at most 40."""
        found = sorted(s.run for s in self._shown[id] if s.success is success and s.run in self.places)
        return [run for run in found if run not in without][:_EVIDENCE]

    def why_mutate(self, one: Member) -> str:
        """Why an experience is due: a run that was shown it failed; "" if it is not."""
        return one.record if one.uses.successes < one.uses.uses else ""

    def why_generalise(self, one: Member) -> str:
        """Why an experience is due: it succeeds often, in several environments or many runs; "" if it is not."""
        if not one.uses.uses or one.success < self._settings.general_from or not one.places:
            return ""
        places = {self.places[run].environment for run in self.runs_shown(one.id, success=True)} - {""}
        if one.uses.uses < self._settings.proven and len(places) < 2:
            return ""
        return one.record + (f", in {listed(sorted(places))}" if places else "")

    def why_prune(self, one: Member) -> str:
        """Why an experience should be retired: it fails, or is rarely shown; "" if it should stay."""
        settings, uses = self._settings, one.uses
        if uses.uses >= settings.proven and one.success < settings.prune_success:
            return one.record
        if uses.shown < settings.prune_shown and (missed := self._opportunities(one)) >= settings.prune_after:
            return f"shown in {uses.shown} of at least {missed} runs that could have shown it"
        return ""

    def partner(self, one: Member, *, floor: float, taken: Collection[str]) -> tuple[Member, str] | None:
        """The most similar experience to cross with, and why; None if there is none.

        Both have the same zone and stage, share an environment and, if both name tools, a tool; they resemble each
        other without saying the same.
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

    def _opportunities(self, one: Member) -> int:
        """At least how many runs could have shown an experience: those of its environments shown it or a newer one.

        Clocks are not used: a run may have been recorded long before it was stored.
        """
        seq, own = self._seq.get(one.id), one.places
        if seq is None:
            return 0
        return sum(
            len(seqs) - bisect_left(seqs, seq)
            for places, seqs in self._newest.items()
            if any(not own or not theirs or own & theirs for theirs in places)
        )


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


# Held-out tasks


def held_out_runs(held_out: HeldOut | None, places: Mapping[str, RunPlace], *, seed: int) -> list[str]:
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
    if unknown := sorted(names.difference(place.task for place in places.values())):
        raise InputError(f"no stored run is of the task {unknown[0]!r}, which is to be held out.")
    return sorted(run for run, place in places.items() if place.task in names)


class Guard:
    """Checks without a model that a child is found as well as the experience it replaces.

    For each situation of a held-out run, the living experiences of its environment are ranked by cosine, as in a
    search. Two numbers must not fall: over runs of the parent's tasks, the mean of 1 / rank of the parent and then of
    the child; over all runs, the mean of 1 / rank of the best experience from the run's task (mean reciprocal rank).
    Without held-out runs every child passes. At most 500 situations are used, sampled by the seed.
    """

    def __init__(
        self, library: Library, runs: Sequence[str], population: Population, *, namespace: str, seed: int
    ) -> None:
        self._population = population
        queries = {
            (population.places[run.id], situation_text(run.environment, move.known))
            for start in range(0, len(runs), _READ_AT_ONCE)
            for run in library.runs(runs[start : start + _READ_AT_ONCE], namespace=namespace)
            for move in moves_of(run)
        }
        chosen = sorted(queries)
        if len(chosen) > QUERIES:
            chosen = sorted(random.Random(seed).sample(chosen, QUERIES))
        self._places = [place for place, _ in chosen]
        self._vectors_QD = population.comparable(library.vectors([text for _, text in chosen])) if chosen else None
        self._columns: dict[str, _Column] = {}

    def __len__(self) -> int:
        return len(self._places)

    def objection(self, child: Member, *, instead_of: str) -> str:
        """Why a child may not come, or may not replace a parent; "" if it may."""
        if not self._places:
            return ""
        was = {id: self._column(member) for id, member in self._population.members.items()}
        now = {id: column for id, column in was.items() if id != instead_of} | {child.id: self._column(child)}
        if instead_of and (kin_Q := was[instead_of].kin_Q).any():
            before = float(_reciprocal_ranks(was.values(), was[instead_of].cosines_Q)[kin_Q].mean())
            after = float(_reciprocal_ranks(now.values(), now[child.id].cosines_Q)[kin_Q].mean())
            if after < before - _ROUNDING:
                return f"held-out runs find it worse than its parent: mean 1/rank {after:.3f} instead of {before:.3f}"
        before, after = _best_of_task(was.values()), _best_of_task(now.values())
        if after < before - _ROUNDING:
            return (
                f"held-out runs find experiences of their task worse with it: mean 1/rank {after:.3f} "
                f"instead of {before:.3f}"
            )
        return ""

    def _column(self, member: Member) -> _Column:
        if member.id not in self._columns:
            places = self._population.places
            tasks = {places[source.run] for source in member.experience.sources if source.run in places}
            here = {"", *member.places}  # as in `Experiences.search`
            cosines_Q = np.full(len(self), -np.inf, dtype=np.float32)
            if member.vector is not None and self._vectors_QD is not None:
                applies_Q = np.array([len(here) == 1 or place.environment in here for place in self._places])
                cosines_Q = np.where(applies_Q, self._vectors_QD @ member.vector, cosines_Q)
            self._columns[member.id] = _Column(cosines_Q, np.array([place in tasks for place in self._places]))
        return self._columns[member.id]


class _Column(NamedTuple):
    """An experience's cosine with each query, -inf where it does not apply, and whether it is of the query's task."""

    cosines_Q: FloatArray
    kin_Q: NDArray[np.bool_]


def _reciprocal_ranks(columns: Iterable[_Column], own_Q: FloatArray) -> FloatArray:
    """1 / rank of a cosine among those of all experiences, per query; 0 where it is not found."""
    above_Q = (np.stack([column.cosines_Q for column in columns]) > own_Q).sum(axis=0)
    return np.where(np.isfinite(own_Q), 1.0 / (1.0 + above_Q), 0.0).astype(np.float32)


def _best_of_task(columns: Collection[_Column]) -> float:
    """Mean reciprocal rank of the best experience of each query's task; a query without one counts 0."""
    kin_MQ = [np.where(column.kin_Q, column.cosines_Q, np.float32(-np.inf)) for column in columns]
    return float(_reciprocal_ranks(columns, np.stack(kin_MQ).max(axis=0)).mean())
