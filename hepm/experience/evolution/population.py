"""The experiences of a library while they evolve: which of them are due for what, and why."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Mapping
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

    @property
    def places(self) -> frozenset[str]:
        """Environments that it applies in; none for all."""
        return frozenset(self.experience.conditions.environments)


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
