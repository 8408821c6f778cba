"""The experiences of a library while they evolve: which of them are due for what, and why."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from hepm.experience.distilling.transcript import listed
from hepm.experience.evolution.plan import EvolutionSettings
from hepm.experience.lessons import Experience
from hepm.experience.library import Library
from hepm.graph.lessons.mirror import rarity, weighted
from hepm.graph.lessons.rows import UNUSED, Showing, StoredLesson, Uses
from hepm.graph.store import FloatArray

_EVIDENCE: Final = 40  # runs that are read for one experience


class Member(NamedTuple):
    """A living experience.

    Attributes:
        vector: As searches compare it (see `Population.comparable`); None while it has none: then it is not crossed,
            and no held-out run finds it.
    """

    id: str
    experience: Experience
    uses: Uses = UNUSED
    vector: FloatArray | None = None

    @property
    def success(self) -> float:
        """Share of successes among the runs whose outcome is known; 0 while none is."""
        return self.uses.successes / self.uses.uses if self.uses.uses else 0.0


@dataclass(frozen=True, slots=True)
class RunPlace:
    """Where a stored run belongs."""

    environment: str
    task: str


class Population:
    """Experiences of one namespace as they were read, with what an evolution makes of them."""

    def __init__(
        self,
        stored: Iterable[StoredLesson],
        showings: Iterable[Showing],
        places: Mapping[str, RunPlace],
        settings: EvolutionSettings,
    ) -> None:
        lessons = [one for one in stored if one.row.kind == "experience"]
        self.known = {one.row.id for one in lessons}
        """Ids of all experiences, retired ones too, and of children."""
        embedded = {one.row.id: one.vector for one in lessons if one.vector is not None}
        raw_ND = np.stack(list(embedded.values())).astype(np.float16) if embedded else None
        self._weights_D = None if raw_ND is None else rarity(raw_ND)
        vectors = {} if raw_ND is None else dict(zip(embedded, self.comparable(raw_ND.astype(np.float32)), strict=True))
        self.members = {
            one.row.id: Member(one.row.id, Experience.of(one.row), one.uses, vectors.get(one.row.id))
            for one in lessons
            if one.row.live
        }
        self.places = places
        self._settings = settings
        self._shown: dict[str, list[Showing]] = defaultdict(list)
        of_run: dict[str, list[StoredLesson]] = defaultdict(list)
        by_id = {one.row.id: one for one in lessons}
        for showing in showings:
            self._shown[showing.lesson].append(showing)
            if showing.lesson in by_id:
                of_run[showing.run].append(by_id[showing.lesson])
        self._missed = _Opportunities(by_id, of_run)

    @classmethod
    def read(cls, library: Library, namespace: str, settings: EvolutionSettings) -> Population:
        """As the store has it now."""
        lessons = library.store.lessons
        places = {
            run: RunPlace(environment, task or run)
            for environment, task, run in library.store.runs_by_task(namespace=namespace)
        }
        return cls(lessons.list(namespace=namespace), lessons.showings(namespace=namespace), places, settings)

    def comparable(self, vectors_ND: FloatArray) -> FloatArray:
        """Vectors as a search among the experiences that were read compares them."""
        return vectors_ND if self._weights_D is None else weighted(vectors_ND, self._weights_D)

    def add(self, member: Member) -> None:
        """Take a child in."""
        self.known.add(member.id)
        self.members[member.id] = member

    def remove(self, id: str) -> None:
        """Let an experience go."""
        del self.members[id]

    def runs_shown(self, id: str, *, success: bool, without: Collection[str] = ()) -> list[str]:
        """Stored runs that an experience was shown in and that ended so, by id, a bounded number."""
        found = sorted(s.run for s in self._shown[id] if s.success is success and s.run in self.places)
        return [run for run in found if run not in without][:_EVIDENCE]

    def why_mutate(self, one: Member) -> str:
        """Why an experience is due: it was shown, and a run with it failed; "" where it is not."""
        uses = one.uses
        return f"{uses.successes} of {uses.uses} runs with it succeeded" if uses.successes < uses.uses else ""

    def why_generalise(self, one: Member) -> str:
        """Why an experience is due: it succeeds often, and in several environments or many runs."""
        if one.success <= self._settings.general_from or not one.experience.conditions.environments:
            return ""
        places = sorted(
            {self.places[run].environment for run in self.runs_shown(one.id, success=True)}.difference({""})
        )
        if one.uses.uses < self._settings.proven and len(places) < 2:
            return ""
        where = f", in {listed(places)}" if places else ""
        return f"{one.uses.successes} of {one.uses.uses} runs with it succeeded{where}"

    def partner(self, one: Member, *, floor: float, taken: Collection[str]) -> tuple[Member, str] | None:
        """The experience nearest to one that it may be crossed with, and why; None where there is none.

        Both are of one zone and stage, apply in a common environment, are about a common tool where both are about any,
        and resemble each other without saying the same.
        """
        if one.vector is None:
            return None
        able = [
            other
            for other in self.members.values()
            if other.id not in taken and other.vector is not None and _complement(one, other)
        ]
        if not able:
            return None
        cosines_N = np.stack([other.vector for other in able if other.vector is not None]) @ one.vector
        fitting = [
            (-float(cosine), other.id, other)
            for cosine, other in zip(cosines_N.tolist(), able, strict=True)
            if floor <= cosine <= self._settings.related
        ]
        if not fitting:
            return None
        cosine, _, other = min(fitting, key=lambda found: found[:2])
        tools = sorted(set(one.experience.tools) & set(other.experience.tools))
        about = f", both about {listed(tools)}" if tools else ""
        return other, f"alike by {-cosine:.2f}{about}"

    def why_prune(self, one: Member) -> str:
        """Why an experience is no longer worth its place; "" where it is."""
        settings, uses = self._settings, one.uses
        if uses.uses >= settings.proven and one.success < settings.prune_success:
            return f"{uses.successes} of {uses.uses} runs with it succeeded"
        if uses.shown < settings.prune_shown and (missed := self._missed.of(one)) >= settings.prune_after:
            return f"shown in {uses.shown} of at least {missed} runs that could have shown it"
        return ""


class _Opportunities:
    """In how many runs each experience could have been shown, as far as that is certain.

    A run that was shown an experience took place when that was there, and so were all that arrived before it. What
    counts for an experience are runs of its environments that were shown it, or one that arrived later. Clocks are not
    asked: a run may have been recorded long before it was told. So nothing counts against what has just arrived.
    """

    def __init__(self, lessons: Mapping[str, StoredLesson], shown: Mapping[str, list[StoredLesson]]) -> None:
        self._seq = {id: one.seq for id, one in lessons.items()}
        newest: dict[frozenset[frozenset[str]], list[int]] = defaultdict(list)
        for of_run in shown.values():
            newest[frozenset(_environments(one) for one in of_run)].append(max(one.seq for one in of_run))
        self._newest = {places: sorted(seqs) for places, seqs in newest.items()}

    def of(self, one: Member) -> int:
        seq = self._seq.get(one.id)
        if seq is None:
            return 0
        own = frozenset(one.experience.conditions.environments)
        return sum(
            len(seqs) - bisect_left(seqs, seq)
            for places, seqs in self._newest.items()
            if any(not own or not theirs or own & theirs for theirs in places)
        )


def _environments(stored: StoredLesson) -> frozenset[str]:
    return frozenset(Experience.of(stored.row).conditions.environments)


def _complement(one: Member, other: Member) -> bool:
    mine, its = one.experience, other.experience
    places, others = set(mine.conditions.environments), set(its.conditions.environments)
    kin = {parent.id for parent in (*mine.parents, *its.parents)} & {one.id, other.id}
    return (
        one.id != other.id
        and not kin
        and (mine.zone, mine.stage) == (its.zone, its.stage)
        and mine.lesson != its.lesson
        and (not places or not others or not places.isdisjoint(others))
        and (not mine.tools or not its.tools or not set(mine.tools).isdisjoint(its.tools))
    )
