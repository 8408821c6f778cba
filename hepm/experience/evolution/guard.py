"""Whether a new experience is found as well as the one it takes the place of: measured, without a model.

For each situation of a held-out run, living experiences that apply in its environment are ranked by cosine, as a search
does it. Two numbers must not fall. Of runs of the tasks that the parent stems from: the mean of 1 / rank of the parent,
and of the child in its place. Of all runs: the mean of 1 / rank of the best experience that stems from the run's task
(mean reciprocal rank). So a child may neither be harder to find than its parent, nor stand in the way of others.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hepm.errors import InputError
from hepm.experience.distilling.situation import situation_text
from hepm.experience.distilling.transcript import moves_of
from hepm.experience.evolution.population import Member, Population, RunPlace
from hepm.experience.library import Library
from hepm.graph.store import FloatArray

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
