"""What was known before calls of the past, as tests that are true or false of each: what trees split on."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hepm.graph.calls.call_matrix import CallMatrix
from hepm.graph.calls.fact_table import FactName
from hepm.graph.rows import Float32Array
from hepm.text import FUNCTION_WORDS
from hepm.types import SAID, SAID_LAST, USER, Facts, ToolName

CALLED: Final = "<CALLED>"
"""Where the facts are from that are the tools called so far, each with how often."""
MOST_TESTS: Final = 300
"""Tests that are tried at one place: those that tell the next calls apart best by themselves."""
_FEWEST_REQUESTS: Final = 3  # unlike ones of a user; of one with fewer, the request may decide
_PRESENT: Final = 0.5  # the limit of a value or a word: 1 where it is there
_MOST_LIMITS: Final = 32  # numbers that one fact is compared with


class FactTest(NamedTuple):
    """Whether a fact is known with a number above a limit; values and words that are there have the number 1."""

    source: str
    fact: str
    above: float

    def holds(self, known: Facts) -> bool:
        """Whether it is true of what is known."""
        number = known.get(self.source, _NOTHING).get(self.fact)
        return number is not None and number > self.above

    def sentence(self, known: Facts) -> str:
        """The answer in words, given what is known: "get_order says status is shipped"."""
        holds = self.holds(known)
        of_source = known.get(self.source, _NOTHING)
        if holds or self.source in (CALLED, USER) or "~" in self.fact:
            return self.in_words(holds=holds)
        if "=" in self.fact:
            key = self.fact.partition("=")[0]
            others = [fact for fact in of_source if fact.startswith(f"{key}=")]
            # What it is says more than what it is not.
            if len(others) == 1:
                return self._replace(fact=others[0]).in_words(holds=True)
            return self.in_words(holds=False)
        if self.fact in of_source:
            return f"{self.source} says {self._name} is {of_source[self.fact]:g}, not above {self.above:g}"
        return f"{self.source} does not say {self._name} is above {self.above:g}"

    def in_words(self, *, holds: bool) -> str:
        """One of its answers in words, whatever is known; a number that is not above the limit is known."""
        says = "does not say"
        if holds:
            says = "says"
        if self.source == CALLED:
            return self._called_in_words(holds=holds)
        if self.source == USER:
            negation = "" if holds else "not "
            return f"the user is {negation}{self.fact.removeprefix('=')}"
        if "~" in self.fact:
            word = self.fact.rpartition("~")[2]
            return f'{_SPEAKERS.get(self.source, self.source)} {says} "{word}"'
        if "=" in self.fact:
            key, _, value = self.fact.partition("=")
            return f"{self.source} {says} {key or 'the result'} is {value}"
        return f"{self.source} says {self._name} is {self._limit_in_words(holds=holds)}"

    def _called_in_words(self, *, holds: bool) -> str:
        was = "was not called"
        if holds:
            was = "was called"
        most = int(self.above)  # of 0.5 calls 0: whether it was called at all
        if most == 0:
            return f"{self.fact} {was}"
        if most == 1:
            return f"{self.fact} {was} more than once"
        return f"{self.fact} {was} more than {most} times"

    def _limit_in_words(self, *, holds: bool) -> str:
        if self.above == -0.5:  # the limit that `_limits` sets below a least value of 0
            return "0 or more" if holds else "below 0"
        if self.fact.endswith("[]"):  # a whole number, whose limit lies half-way between two
            most = math.floor(self.above)
            return f"{most + 1} or more" if holds else f"at most {most}"
        return f"above {self.above:g}" if holds else f"at most {self.above:g}"

    @property
    def _name(self) -> str:
        """The number in words: "items[]" is how many items a list has, and "[]" how many the result has."""
        if not self.fact.endswith("[]"):
            return self.fact
        return f"the number of {self.fact.removesuffix('[]') or 'items'}"

    @property
    def readable(self) -> bool:
        """Whether a sentence with it says anything: "says and is above 90" does not."""
        named = self.fact.partition("=")[0]
        return self.source == CALLED or re.split("[.~]", named)[-1] not in FUNCTION_WORDS

    @property
    def numeric(self) -> bool:
        """Whether it compares a number of a result."""
        return not (self.presence or self.source == CALLED)

    @property
    def presence(self) -> bool:
        """Whether it asks for a value or a word, not for a number."""
        return "=" in self.fact or "~" in self.fact


_SPEAKERS: Final[Mapping[str, str]] = {SAID: "the user", SAID_LAST: "the user's last message"}
_NOTHING: Final[Mapping[str, float]] = {}


@dataclass(frozen=True, slots=True)
class TestedCalls:
    """Of N calls and F tests: which test is true of which call, shape (N, F), 0 or 1."""

    tests: list[FactTest]
    true_NF: Float32Array


class _Entries(NamedTuple):
    """Facts that are known before calls: the place of the call, the fact, its value."""

    call_X: NDArray[np.intp]
    fact_X: NDArray[np.intp]
    value_X: Float32Array


def tested(calls: CallMatrix, rows_N: NDArray[np.intp], *, fewest: int) -> TestedCalls:
    """The tests that are true of at least `fewest` of these calls and false of as many."""
    before: list[int] = np.unique(calls.before_NK[rows_N, 0]).tolist()
    last_tools = {calls.names[tool] for tool in before if tool >= 0}
    tests: list[FactTest] = []
    columns: list[NDArray[np.bool_]] = []
    for name, call_X, value_X in _by_fact(calls, rows_N, fewest=fewest):
        if name.source == USER and _requests(calls, rows_N[call_X]) < _FEWEST_REQUESTS:
            continue
        for limit in _limits_of(name, value_X):
            true_X = call_X[value_X > limit]
            if fewest <= len(true_X) <= len(rows_N) - fewest:
                column = np.zeros(len(rows_N), dtype=np.bool_)
                column[true_X] = True
                tests.append(FactTest(*name, limit))
                columns.append(column)
    chosen = _distinct_columns(tests, columns, last_tools)
    true_NF = np.zeros((len(rows_N), len(chosen)), dtype=np.float32)
    for column, number in enumerate(chosen):
        true_NF[:, column] = columns[number]
    return TestedCalls([tests[number] for number in chosen], true_NF)


def _distinct_columns(
    tests: Sequence[FactTest], columns: Sequence[NDArray[np.bool_]], last_tools: set[ToolName]
) -> list[int]:
    """The tests without those that are true of the same calls as an earlier one.

    What the last call returned comes first: it explains more than a word of the user.
    """
    order = sorted(range(len(tests)), key=lambda number: (_rank(tests[number], last_tools), tests[number]))
    kept: dict[bytes, int] = {}
    for number in order:
        kept.setdefault(np.packbits(columns[number]).tobytes(), number)
    return list(kept.values())


def words_said(calls: CallMatrix, rows_N: NDArray[np.intp], *, fewest: int) -> tuple[list[str], NDArray[np.bool_]]:
    """Words that users had said before at least `fewest` of these calls, and before which, shape (N, W)."""
    words: list[str] = []
    columns: list[NDArray[np.bool_]] = []
    for name, call_X, _ in _by_fact(calls, rows_N, fewest=fewest):
        if name.source == SAID:
            column = np.zeros(len(rows_N), dtype=np.bool_)
            column[call_X] = True
            words.append(name.fact.removeprefix("~"))
            columns.append(column)
    if not columns:
        return [], np.zeros((len(rows_N), 0), dtype=np.bool_)
    return words, np.stack(columns, axis=1)


def answered(calls: CallMatrix, rows_N: NDArray[np.intp], tests: Sequence[FactTest]) -> NDArray[np.bool_]:
    """Which of some tests is true of which of these calls, shape (N, F)."""
    by_name: dict[FactName, list[int]] = {}
    for column, test in enumerate(tests):
        by_name.setdefault(FactName(test.source, test.fact), []).append(column)
    true_NF = np.zeros((len(rows_N), len(tests)), dtype=np.bool_)
    for name, call_X, value_X in _by_fact(calls, rows_N, only=by_name):
        for column in by_name.get(name, ()):
            true_NF[call_X, column] = value_X > tests[column].above
    return true_NF


def known_before(calls: CallMatrix, rows_N: NDArray[np.intp]) -> list[Facts]:
    """The facts that were known before each of these calls."""
    known_N = [dict[str, dict[str, float]]() for _ in rows_N.tolist()]
    for name, call_X, value_X in _by_fact(calls, rows_N):
        rows: list[int] = call_X.tolist()
        for row, value in zip(rows, value_X.tolist(), strict=True):
            known_N[row].setdefault(name.source, {})[name.fact] = value
    return [*known_N]


def with_calls(facts: Facts, called: Mapping[ToolName, int]) -> Facts:
    """The facts of a query with the calls that were made."""
    return {**facts, CALLED: {tool: float(times) for tool, times in called.items()}}


def with_user(facts: Facts, user: str) -> Facts:
    """The facts of a query with the user's name; none are added where nothing else is known, or no user."""
    if not facts or not user:
        return facts
    return {**facts, USER: {f"={user}": 1.0}}


def _requests(calls: CallMatrix, rows_X: NDArray[np.intp]) -> int:
    """How many unlike requests the runs of some calls have."""
    return len({calls.request_R[run] for run in calls.run_N[rows_X].tolist()})


def _rank(test: FactTest, last_tools: set[ToolName]) -> int:
    if test.source in last_tools:
        return 0
    return {CALLED: 2, SAID_LAST: 3, SAID: 4, USER: 5}.get(test.source, 1)


def _limits_of(name: FactName, value_X: Float32Array) -> list[float]:
    """What the values of a fact are compared with: numbers half-way between them, spread evenly over them."""
    if FactTest(*name, _PRESENT).presence:
        return [_PRESENT]
    distinct = np.unique(value_X)
    between = (distinct[1:] + distinct[:-1]) / 2
    if len(between) > _MOST_LIMITS:
        quantiles = np.quantile(value_X, np.linspace(0, 1, _MOST_LIMITS + 2)[1:-1])
        places = np.minimum(np.searchsorted(between, quantiles), len(between) - 1)
        between = between[np.unique(places)]
    return [float(distinct[0]) - 0.5, *map(float, between)]


def _by_fact(
    calls: CallMatrix, rows_N: NDArray[np.intp], *, fewest: int = 1, only: Collection[FactName] = ()
) -> Iterator[tuple[FactName, NDArray[np.intp], Float32Array]]:
    """Each fact that is known before at least `fewest` of the calls: of which of them, and its values.

    With `only`, of what results and users said, no more than these facts (and where one of a name is said, its like).
    """
    names = calls.facts.names()
    numbers = [calls.facts.numbers.get(_as_stored(name), -1) for name in only]
    results, said, said_last, called = _entries(calls, rows_N)
    for entries, source in ((results, ""), (said, SAID), (said_last, SAID_LAST), (called, CALLED)):
        times_F = np.bincount(entries.fact_X, minlength=len(names))
        if only and source != CALLED:
            times_F[np.setdiff1d(np.arange(len(names)), numbers)] = 0
        # Most facts are names and numbers of one run: they are left out before the rest is sorted.
        kept_X = np.flatnonzero(times_F[entries.fact_X] >= fewest)
        fact_X, call_X = entries.fact_X[kept_X], entries.call_X[kept_X]
        order = np.argsort(fact_X * len(rows_N) + call_X, kind="stable")
        call_X, value_X = call_X[order], entries.value_X[kept_X[order]]
        facts_U = np.flatnonzero(times_F >= fewest)
        ends: list[int] = np.cumsum(times_F[facts_U]).tolist()
        start = 0
        for fact, end in zip(facts_U.tolist(), ends, strict=True):
            if source == CALLED:
                name = FactName(CALLED, calls.names[fact])
            else:
                # All that was said is stored once: whether it was said last depends on the call.
                name = FactName(source or names[fact].source, names[fact].fact)
            yield name, call_X[start:end], value_X[start:end]
            start = end
    users_N = np.array([calls.user_R[run] for run in calls.run_N[rows_N].tolist()], dtype=np.str_)
    for user in np.unique(users_N[users_N != ""]).tolist():
        of_user_X = np.flatnonzero(users_N == user)
        yield FactName(USER, f"={user}"), of_user_X, np.ones(len(of_user_X), dtype=np.float32)


def _as_stored(name: FactName) -> FactName:
    """All that was said is stored once, also what was said last."""
    if name.source == SAID_LAST:
        return FactName(SAID, name.fact)
    return name


def _entries(calls: CallMatrix, rows_N: NDArray[np.intp]) -> tuple[_Entries, _Entries, _Entries, _Entries]:
    """What is known before calls: the latest result of each tool, all that was said, what was said last, and calls."""
    before_N = calls.position_N[rows_N].astype(np.intp)
    # Each call with all calls of its run up to it, itself included: what was learned before it stands at its row.
    own_P = np.repeat(np.arange(len(rows_N)), before_N + 1)
    call_P = _ranges(rows_N - before_N, before_N + 1)
    segments, facts_F, values_F = calls.facts.read()
    learned_P = calls.learned_N[call_P]
    first_P = np.searchsorted(segments[:, 0], learned_P, side="left")
    count_P = np.searchsorted(segments[:, 0], learned_P, side="right") - first_P
    own_Q = np.repeat(own_P, count_P)
    segment_Q = _ranges(first_P, count_P)
    source_Q = segments[segment_Q, 1]
    is_said_Q = source_Q == calls.facts.source(SAID)
    last_Q = _last_of_each(own_Q, source_Q)

    def expanded(chosen_Q: NDArray[np.bool_]) -> _Entries:
        segment = segment_Q[chosen_Q]
        own = own_Q[chosen_Q]
        # A segment ends at the number it holds, and begins where the one before ends.
        start = np.where(segment > 0, segments[segment - 1, 2], 0)
        count = segments[segment, 2] - start
        facts = _ranges(start, count)
        return _Entries(np.repeat(own, count), facts_F[facts].astype(np.intp), values_F[facts])

    earlier_P = call_P < rows_N[own_P]
    tools = len(calls.names)
    key, times = np.unique(own_P[earlier_P] * tools + calls.next_N[call_P[earlier_P]], return_counts=True)
    called = _Entries(key // tools, key % tools, times.astype(np.float32))
    return expanded(last_Q & ~is_said_Q), _distinct(expanded(is_said_Q)), expanded(last_Q & is_said_Q), called


def _distinct(entries: _Entries) -> _Entries:
    """Without repeats of a fact at a call."""
    pair_X = entries.call_X * (int(entries.fact_X.max(initial=0)) + 1) + entries.fact_X
    _, first = np.unique(pair_X, return_index=True)
    return _Entries(entries.call_X[first], entries.fact_X[first], entries.value_X[first])


def _last_of_each(own_Q: NDArray[np.intp], source_Q: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether no later segment of the same call has the same source."""
    key_Q = own_Q * (int(source_Q.max(initial=0)) + 1) + source_Q
    _, last = np.unique(key_Q[::-1], return_index=True)
    is_last_Q = np.zeros(len(key_Q), dtype=np.bool_)
    is_last_Q[len(key_Q) - 1 - last] = True
    return is_last_Q


def _ranges(
    start_R: NDArray[np.int64] | NDArray[np.intp], count_R: NDArray[np.int64] | NDArray[np.intp]
) -> NDArray[np.intp]:
    """The numbers from each start on, as many as its count, one after the other."""
    ends = np.cumsum(count_R)
    total = int(ends.max(initial=0))
    return (np.arange(total) - np.repeat(ends - count_R, count_R) + np.repeat(start_R, count_R)).astype(np.intp)
