"""Comparisons: whether one of two numbers, or times, that are known before a call is above the other.

Many rules of a trade are such: an amount above a limit that another tool returned, a purchase longer ago than a
customer may return it. A place has many pairs of numbers, so a comparison is a test only if its information gain pays
for its choice among all of them (minimum description length), and is higher than that of any limit of one of the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from hepm.evidence.decisions import BoolArray, FactName, IndexArray, IntArray, Labels
from hepm.evidence.facts import FactTest, KnownFacts, TestedRows, cost_of_test, gains, limits
from hepm.graph.rows import Float32Array
from hepm.types import CLOCK, DATE, NOW

# By how much a time is after another: as rules of trades say it.
_DAYS: Final = (0.0, 1 / 24, 0.5, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 14.0, 21.0, 30.0, 45.0, 60.0, 90.0, 180.0, 365.0)


def with_comparisons(
    found: TestedRows,
    known: KnownFacts,
    label_N: Labels,
    family_N: IndexArray,
    *,
    fewest: int,
    keep: Callable[[FactTest], bool],
    part_N: IntArray | None = None,
) -> TestedRows:
    """These tests of N decisions, and the comparisons that tell their labels apart.

    Args:
        family_N: Of what repeats itself one decision with each label counts.
        fewest: Decisions of which one is true, and of which it is false.
        keep: Which numbers are wanted, as tests of one of them.
        part_N: Numbers of parts of the decisions, in each of which comparisons are looked for; None for one.
    """
    chosen: dict[FactTest, BoolArray] = {}
    if part_N is None:
        part_N = np.zeros(len(label_N), dtype=np.int32)
    for number in np.unique(part_N):
        rows = np.flatnonzero(part_N == number)
        part = known.among(rows)
        numbers = _numbers(part, fewest, keep)
        once = np.unique(np.stack([family_N, label_N])[:, rows], axis=1, return_index=True)[1]
        columns = {name: part.column(number)[rows][once] for name, number in numbers.items()}
        for test in _chosen(columns, label_N[rows][once], fewest):
            one_N, other_N = (known.column(numbers[name]) for name in test.names)
            chosen[test] = one_N - other_N > test.above
    new = [test for test in chosen if test not in found.tests]
    return TestedRows((*found.tests, *new), np.column_stack([found.true_NF, *(chosen[test] for test in new)]))


def _chosen(columns: Mapping[FactName, Float32Array], label_N: Labels, fewest: int) -> Iterator[FactTest]:
    """The comparisons that pay, at most five: the best of each pair."""
    compared = sorted(_compared(columns, label_N, fewest), key=lambda one: -round(one[0], 6))
    cost = cost_of_test(len(compared) + 1, len(np.unique(label_N)))
    pairs: set[frozenset[FactName]] = set()
    for gain, test in compared:
        if gain < cost or len(pairs) == 5:
            return
        pair = frozenset(test.names)
        # A limit of one of the two says the same in fewer words, unless it gains a nat less.
        if pair not in pairs and gain >= 1 + _alone(test.names, columns, label_N):
            pairs.add(pair)
            yield test


def _numbers(known: KnownFacts, fewest: int, keep: Callable[[FactTest], bool]) -> dict[FactName, int]:
    """The numbers that are known before most decisions, at most 40.

    What has most values comes first: a sum is compared with the limit, not the limit with the sum.
    """
    numbers: list[tuple[int, FactName, int]] = []  # with how many values each has
    for number, _ in known.most_known(2 * fewest):
        name = known.names[number]
        if len(numbers) == 40:
            break
        # Of what the user says the largest number is compared, of calls none.
        comparable = not name.source.startswith("<") or name.fact == "#" or name.source == NOW
        if name.presence or not (comparable and keep(FactTest(*name, 0))):
            continue
        distinct = len(np.unique(known.value_E[known.fact_E == number]))
        # One with fewer values is compared as well by a limit.
        if name.source == NOW or distinct >= 3:
            numbers.append((distinct, name, number))
    return {name: number for _, name, number in sorted(numbers, key=lambda one: -one[0])}


def _is_like(one: str, other: str) -> bool:
    """Whether both are numbers, times, or times of day."""
    return all(one.endswith(mark) == other.endswith(mark) for mark in (DATE, CLOCK))


def _compared(
    columns: Mapping[FactName, Float32Array], label_N: Labels, fewest: int
) -> Iterator[tuple[float, FactTest]]:
    """All comparisons that are true of enough decisions, and false of enough, each with its information gain."""
    for one in columns:
        are_times = one.fact.endswith(DATE)
        others = [other for other in columns if other != one and _is_like(one.fact, other.fact)]
        if not others:
            continue
        difference_NF = np.array([columns[one] - columns[other] for other in others]).T
        known_NF = ~np.isnan(difference_NF)
        known_F = known_NF.sum(axis=0)
        for above in _DAYS if are_times else (0.0,):
            true_NF = difference_NF > above
            true_F = true_NF.sum(axis=0)
            split_S = np.flatnonzero((true_F >= fewest) & (known_F - true_F >= fewest))
            gain_S = gains(true_NF[:, split_S], label_N, known_NF[:, split_S])
            for other, gain in zip(split_S.tolist(), gain_S.tolist(), strict=True):
                yield gain, FactTest(*one, above, than=others[other])


def _alone(pair: Sequence[FactName], columns: Mapping[FactName, Float32Array], label_N: Labels) -> float:
    """The information gain of the best limit of one of two numbers, where both are known."""
    known_N = ~np.isnan(columns[pair[0]] + columns[pair[1]])
    best = 0.0
    for name in pair:
        value_N = columns[name][known_N]
        above_NL = value_N[:, None] > np.array(limits(name, value_N))
        best = max(best, float(gains(above_NL, label_N[known_N]).max()))
    return best
