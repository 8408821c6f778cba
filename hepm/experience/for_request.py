"""What to know before a task begins: the principles that runs with like requests bear out. Ours."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

import numpy as np

from hepm.evidence.nearest import Requests
from hepm.experience.comparison import says_nothing
from hepm.experience.known_values import words_of
from hepm.experience.lesson_bank import LessonBank
from hepm.experience.lessons import Principle, applies_in
from hepm.graph.delta import request_of as first_request
from hepm.graph.delta import words_of as requested_words
from hepm.graph.lessons.rows import StoredLesson

AS_USUAL: Final = 0.75
"""By so much fewer of the like runs than of all may be behind a principle that is about a request."""
_TEMPERATURE: Final = 0.15  # by so much a run may be less similar than the most similar one to count 1 / e of it


def principles_for(
    bank: LessonBank, request: str, *, namespace: str, environment: str = "", k: int = 3
) -> list[StoredLesson]:
    """Up to k live principles for a request, the most telling first, ties by id; [] if no run is known.

    The most telling one has the largest share of like runs behind it, each run weighed by its likeness to the
    request. A principle that fewer of them stand behind than of all runs (`AS_USUAL`) is about other requests. One
    whose condition names words of the user holds for requests with one of them alone; other conditions are not known
    yet.
    """
    candidates: list[StoredLesson] = []
    for stored in bank.list("principle", namespace=namespace):
        useful = applies_in(stored.row, environment) and not says_nothing(stored.row)
        if useful and _may_hold(stored, request):
            candidates.append(stored)
    runs = sorted(set[str]().union(*(stored.row.run_ids for stored in candidates)))
    if not runs:
        return []
    weights = _weights(bank.like_requests(runs, namespace=namespace), request)
    ranked: list[tuple[float, str, StoredLesson]] = []
    for stored in candidates:
        behind = stored.row.run_ids
        share = _share_of(behind, weights, len(runs))
        if share >= AS_USUAL * len(behind) / len(runs):
            ranked.append((-share, stored.row.id, stored))
    # By the first two: ids differ, so that lessons are never compared.
    ranked.sort(key=lambda entry: entry[:2])
    return list(_each_once(entry[-1] for entry in ranked))[:k]


def _weights(requests: Requests, request: str) -> dict[str, float]:
    """How much each run counts, in (0, 1]: the most similar one 1; nothing if the request has no word."""
    words = requested_words(first_request(request))
    if not requests.run_ids or not words:
        return {}
    cosine_R = requests.cosines(words)
    weight_R = np.exp((cosine_R - cosine_R.max()) / _TEMPERATURE)
    return dict(zip(requests.run_ids, weight_R.tolist(), strict=True))


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


def _each_once(lessons: Iterable[StoredLesson]) -> Iterator[StoredLesson]:
    """Without those whose triples were all in one before."""
    known: set[object] = set()
    for stored in lessons:
        if not stored.row.triples or not known.issuperset(stored.row.triples):
            yield stored
        known.update(stored.row.triples)
