"""Whether a new experience is found as well as the one it takes the place of: measured, without a model.

For each situation of a held-out run, living experiences that apply in its environment are ranked by cosine, as a search
does it. Two numbers must not fall. Of runs of the tasks that the parent stems from: the mean of 1 / rank of the parent,
and of the child in its place. Of all runs: the mean of 1 / rank of the best experience that stems from the run's task
(mean reciprocal rank). So a child may neither be harder to find than its parent, nor stand in the way of others.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
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

BoolArray: TypeAlias = NDArray[np.bool_]


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
        return sorted(run for run, place in places.items() if _chance(seed, place) < held_out)
    names = {held_out} if isinstance(held_out, str) else set(held_out)
    if unknown := sorted(names.difference(place.task for place in places.values())):
        raise InputError(f"no stored run is of the task {unknown[0]!r}, which is to be held out.")
    return sorted(run for run, place in places.items() if place.task in names)


def _chance(seed: int, place: RunPlace) -> float:
    return random.Random(f"{seed}\n{place.environment}\n{place.task}").random()


@dataclass(frozen=True, slots=True)
class _Query:
    text: str
    place: RunPlace


class Guard:
    """Compares a library with and without a child. Without a held-out run it lets everything pass.

    Cost: one vector a query, and for each child a few passes over queries × experiences.
    """

    def __init__(self, queries: Sequence[_Query], vectors_QD: FloatArray, places: Mapping[str, RunPlace]) -> None:
        self._vectors_QD = vectors_QD
        self._places = places
        self._tasks_Q = np.array([_told(query.place) for query in queries], dtype=object)
        self._environments_Q = np.array([query.place.environment for query in queries], dtype=object)
        # The last column is nobody's: a child stands there while it is measured.
        self._cosines_QM = np.full((len(queries), 1), -np.inf, dtype=np.float32)
        self._kin_QM = np.zeros((len(queries), 1), dtype=bool)
        self._at: dict[str, int] = {}

    @classmethod
    def of(cls, library: Library, runs: Collection[str], population: Population, *, namespace: str, seed: int) -> Guard:
        """One that asks with the situations before each move of the runs; of very many, with some by chance."""
        places = population.places
        queries: dict[str, _Query] = {}
        names = sorted(runs)
        for start in range(0, len(names), _READ_AT_ONCE):
            for run in library.runs(names[start : start + _READ_AT_ONCE], namespace=namespace):
                for move in moves_of(run):
                    text = situation_text(run.environment, move.known)
                    queries.setdefault(f"{places[run.id]}\n{text}", _Query(text, places[run.id]))
        chosen = sorted(queries)
        if len(chosen) > QUERIES:
            chosen = sorted(random.Random(seed).sample(chosen, QUERIES))
        asked = [queries[key] for key in chosen]
        if not asked:
            return cls((), np.empty((0, 0), dtype=np.float32), places)
        guard = cls(asked, population.comparable(library.vectors([query.text for query in asked])), places)
        guard.add(*population.members.values())
        return guard

    def __len__(self) -> int:
        return len(self._vectors_QD)

    def add(self, *members: Member) -> None:
        """Experiences are in the library."""
        if not len(self):
            return
        columns = [self._column(member) for member in members]
        self._at |= {member.id: self._nobody + place for place, member in enumerate(members)}
        spare = self._cosines_QM[:, -1:], self._kin_QM[:, -1:]
        cosines, kin = [column[0][:, None] for column in columns], [column[1][:, None] for column in columns]
        self._cosines_QM = np.concatenate([self._cosines_QM[:, :-1], *cosines, spare[0]], axis=1)
        self._kin_QM = np.concatenate([self._kin_QM[:, :-1], *kin, spare[1]], axis=1)

    def remove(self, id: str) -> None:
        """An experience is no longer found."""
        if id in self._at:
            self._put(self._at.pop(id), *self._none)

    def objection(self, child: Member, *, instead_of: str | None) -> str:
        """Why a child may not come, or take a parent's place; "" where it may."""
        if not len(self):
            return ""
        cosines_Q, kin_Q = self._column(child)
        at = self._nobody if instead_of is None else self._at[instead_of]
        parent_Q, of_parent_Q = self._cosines_QM[:, at].copy(), self._kin_QM[:, at].copy()
        was, was_best = self._reciprocal_ranks(parent_Q), self._best_of_task()
        self._put(at, cosines_Q, kin_Q)
        now, now_best = self._reciprocal_ranks(cosines_Q), self._best_of_task()
        self._put(at, parent_Q, of_parent_Q)
        if of_parent_Q.any():
            before, after = float(was[of_parent_Q].mean()), float(now[of_parent_Q].mean())
            if after < before - _LEAST:
                return f"held-out runs find it worse than its parent: mean 1/rank {after:.3f} instead of {before:.3f}"
        if now_best < was_best - _LEAST:
            return (
                "held-out runs find experiences of their task worse with it: "
                f"mean 1/rank {now_best:.3f} instead of {was_best:.3f}"
            )
        return ""

    @property
    def _nobody(self) -> int:
        return self._cosines_QM.shape[1] - 1

    @property
    def _none(self) -> tuple[FloatArray, BoolArray]:
        return np.full(len(self), -np.inf, dtype=np.float32), np.zeros(len(self), dtype=bool)

    def _put(self, at: int, cosines_Q: FloatArray, kin_Q: BoolArray) -> None:
        self._cosines_QM[:, at], self._kin_QM[:, at] = cosines_Q, kin_Q

    def _column(self, member: Member) -> tuple[FloatArray, BoolArray]:
        """An experience's cosine with each query, minus infinity where it does not apply, and whether of its task."""
        runs = (source.run for source in member.experience.sources)
        tasks = [_told(self._places[run]) for run in runs if run in self._places]
        kin_Q = np.isin(self._tasks_Q, np.array(tasks, dtype=object)) if tasks else self._none[1]
        if member.vector is None or not len(self):
            return self._none[0], kin_Q
        cosines_Q: FloatArray = self._vectors_QD @ member.vector
        # As `Experiences.search` has it.
        places = member.experience.conditions.environments
        if places:
            here = np.array(["", *places], dtype=object)
            cosines_Q = np.where(np.isin(self._environments_Q, here), cosines_Q, np.float32(-np.inf))
        return cosines_Q, kin_Q

    def _reciprocal_ranks(self, own_Q: FloatArray) -> FloatArray:
        """1 / rank of a cosine among those of all experiences, per query; 0 where it is not found."""
        above_Q = (self._cosines_QM > own_Q[:, None]).sum(axis=1)
        return np.where(np.isfinite(own_Q), 1.0 / (1.0 + above_Q), 0.0).astype(np.float32)

    def _best_of_task(self) -> float:
        """Mean reciprocal rank of the best experience of each query's task; a query that has none counts 0."""
        best_Q = np.where(self._kin_QM, self._cosines_QM, np.float32(-np.inf)).max(axis=1)
        return float(self._reciprocal_ranks(best_Q).mean())


def _told(place: RunPlace) -> str:
    return f"{place.environment}\n{place.task}"
