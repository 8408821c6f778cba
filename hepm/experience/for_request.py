"""What to know before a task begins: the principles that runs with like requests bear out. Ours."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from hepm.experience.comparison import says_nothing
from hepm.experience.known_values import words_of
from hepm.experience.lesson_bank import LessonBank
from hepm.experience.lessons import EXTRACTIVE, FAILS_AFTER, Principle, applies_in, is_content
from hepm.experience.likeness import likeness
from hepm.experience.principle_advice import LEAST_RUNS
from hepm.graph.lessons.rows import StoredLesson

AS_USUAL: Final = 0.75
"""By so much fewer of the like runs than of all may be behind a principle that is about a request."""


def principles_for(
    bank: LessonBank, request: str, *, namespace: str, environment: str = "", k: int = 3
) -> list[StoredLesson]:
    """Up to k live principles for a request, the most telling first, ties by id; [] if no run is known.

    The most telling one has the largest share of like runs behind it, each run weighed by its likeness to the
    request. A principle that fewer of them stand behind than of all runs (`AS_USUAL`) is about other requests. Those
    that only name the way of successful runs come after all others, and what counting learned from a single run is
    left out. One whose condition names words of the user holds for requests with one of them alone; other conditions
    are not known yet.
    """
    candidates: list[StoredLesson] = []
    for stored in bank.list("principle", namespace=namespace):
        useful = applies_in(stored.row, environment) and not says_nothing(stored.row)
        if useful and _may_hold(stored, request) and not _from_one_run(stored):
            candidates.append(stored)
    runs = sorted(set[str]().union(*map(_runs, candidates)))
    if not runs:
        return []
    requests = bank.like_requests(runs, namespace=namespace)
    weights = likeness(requests, request).weights
    ranked: list[tuple[bool, float, str, StoredLesson]] = []
    for stored in candidates:
        behind = _runs(stored)
        share = _share_of(behind, weights, len(runs))
        if share >= AS_USUAL * len(behind) / len(runs):
            ranked.append((_says_little(stored), -share, stored.row.id, stored))
    # By the first three: ids differ, so that lessons are never compared.
    ranked.sort(key=lambda entry: entry[:3])
    return list(_each_once(entry[-1] for entry in ranked))[:k]


def _runs(stored: StoredLesson) -> set[str]:
    return {source.run for source in stored.row.sources}


def _from_one_run(stored: StoredLesson) -> bool:
    return stored.row.properties["distilled_by"] == EXTRACTIVE and len(stored.row.sources) < LEAST_RUNS


def _may_hold(stored: StoredLesson, request: str) -> bool:
    """Whether the condition of a principle may hold in a run that begins with this request."""
    conditions = Principle.of(stored.row).conditions
    # Whom the run is for is not known here.
    if conditions.user:
        return False
    if not conditions.says:
        return True
    words = words_of(request)
    return any(words_of(word) <= words for word in conditions.says)


def _share_of(behind: Collection[str], weights: Mapping[str, float], runs: int) -> float:
    """The share of like runs that are behind a principle, drawn to that of all runs by the weight of one run."""
    like = sum(weights.get(run, 0.0) for run in behind)
    # Without like runs it is the share of all runs: nothing is known of this request.
    return (like + len(behind) / runs) / (sum(weights.values()) + 1)


def _says_little(stored: StoredLesson) -> bool:
    """Whether it names the end of a successful run and not what sets such runs apart."""
    principle = Principle.of(stored.row)
    if principle.distilled_by != EXTRACTIVE:
        return False
    warns = any(triple.predicate == FAILS_AFTER for triple in principle.triples)
    return not (warns or is_content(principle) or principle.conditions.checked)


def _each_once(lessons: Iterable[StoredLesson]) -> Iterator[StoredLesson]:
    """Without those whose triples were all in one before."""
    known: set[object] = set()
    for stored in lessons:
        if not stored.row.triples or not known.issuperset(stored.row.triples):
            yield stored
        known.update(stored.row.triples)
