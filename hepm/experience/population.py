"""The experiences of a library during an evolution: which are due for what, and whether a child may replace its parent.

Vectors are compared as in a search.
"""

from __future__ import annotations

import random
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np

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
        # The newest lesson's number of each run that was shown lessons, by their environments; "" is any.
        self._newest: defaultdict[frozenset[str], list[int]] = defaultdict(list)
        for ids in of_run.values():
            places = frozenset(place for id in ids for place in (every[id].places or {""}))
            insort(self._newest[places], max(self._seq[id] for id in ids))

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
            for places, numbers in self._newest.items()
            if not one.places or places & {"", *one.places}
        )
        if missed < settings.prune_after:
            return ""
        return f"shown in {uses.shown} of at least {missed} runs that could have shown it"

    def partner(self, one: Member, *, floor: float, taken: Collection[str]) -> tuple[Member, str] | None:
        """The most similar experience to cross with, and why; None if there is none.

        Both have the same zone and stage, share an environment and, if both name tools, a tool; they resemble each
        other without equal lessons.
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
    search. The mean of 1 / rank of the best experience from the run's task (mean reciprocal rank) must not fall.
    Without held-out runs every child passes. At most 500 situations are used, sampled by the seed.
    """

    def __init__(
        self, library: Library, runs: Sequence[str], population: Population, *, namespace: str, seed: int
    ) -> None:
        self._population = population
        queries = {
            (population.places[run.id], situation_text(run.environment, move.known))
            for run in library.runs(runs, namespace=namespace)
            for move in moves_of(run)
        }
        chosen = sorted(queries)
        if len(chosen) > _QUERIES:
            chosen = sorted(random.Random(seed).sample(chosen, _QUERIES))
        self._places = [place for place, _ in chosen]
        self._vectors_QD = population.comparable(library.vectors([text for _, text in chosen])) if chosen else None
        self._ranked: dict[str, tuple[FloatArray, FloatArray]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def objection(self, child: Member, *, instead_of: str) -> str:
        """Why a child may not come, or may not replace a parent; "" if it may."""
        if not self._places:
            return ""
        members = self._population.members
        before = self._reciprocal_rank(list(members.values()))
        after = self._reciprocal_rank([*(one for id, one in members.items() if id != instead_of), child])
        if after >= before - _ROUNDING:
            return ""
        return f"held-out runs find experiences of their task worse: mean 1/rank {after:.3f} instead of {before:.3f}"

    def _reciprocal_rank(self, members: Sequence[Member]) -> float:
        cosines_MQ, own_MQ = (np.stack(columns) for columns in zip(*map(self._cosines, members), strict=True))
        best_Q = own_MQ.max(axis=0)
        return float(np.where(np.isfinite(best_Q), 1.0 / (1.0 + (cosines_MQ > best_Q).sum(axis=0)), 0.0).mean())

    def _cosines(self, member: Member) -> tuple[FloatArray, FloatArray]:
        """With each query, -inf if the experience does not apply; the same, -inf too if it is of another task."""
        if member.id not in self._ranked:
            places = self._population.places
            tasks = {places[source.run] for source in member.experience.sources if source.run in places}
            cosines_Q = np.full(len(self), -np.inf, dtype=np.float32)
            if member.vector is not None and self._vectors_QD is not None:
                applies_Q = np.array(
                    [not member.places or place.environment in member.places | {""} for place in self._places]
                )  # as in `Experiences.search`
                cosines_Q = np.where(applies_Q, self._vectors_QD @ member.vector, cosines_Q)
            kin_Q = np.array([place in tasks for place in self._places])
            self._ranked[member.id] = cosines_Q, np.where(kin_Q, cosines_Q, np.float32(-np.inf))
        return self._ranked[member.id]
