"""Tests of facts: questions to what is known before a call, for many decisions at once or for one situation."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from itertools import repeat
from typing import Final, NamedTuple

import numpy as np

from hepm.evidence.decisions import (
    BEFORE,
    CALLED,
    ENDED,
    SINCE,
    BoolArray,
    Decision,
    FactName,
    FactNumbers,
    FloatArray,
    IndexArray,
    IntArray,
    Labels,
    Segment,
    facts_of_calls,
)
from hepm.graph.rows import Float32Array
from hepm.text import FUNCTION_WORDS
from hepm.types import DATE, FIRST_DAY, NOW, PRESENT, RESULTS_OF, SAID, SAID_LAST, START, TIME, USER, Facts, ToolName

_THERE: Final = 0.5  # the limit of a value or a word: 1 where it is there
_ANY: Final = -1e30  # the limit that any number is above: whether one is known
_FEWEST_FAMILIES: Final = 3
"""Families on each side of a test, where a place has many: what tells two tasks apart says nothing of a third."""
_VALUE: Final = re.compile(r"(?<=[=~]).*", re.DOTALL)  # "shipped" of "status=shipped"
_NUMBER_OF_ONE: Final = re.compile(r"(?:^|[_.-])(?i:id|number)$|[a-z](?:I[dD]|Number)$")  # "repository.id", "prNumber"
_SPEAKERS: Final[Mapping[str, str]] = {SAID: "the user", SAID_LAST: "the user's last message"}
_OF_RUN: Final[Mapping[str, tuple[str, str]]] = {
    CALLED: ("{} was not called", "{} was called"),
    ENDED: ("the last call did not end in an error", "the last call ended in an error"),
    USER: ("the user is not {}", "the user is {}"),
    SINCE: ("the {} has not written since", "the {} has written since"),
    BEFORE: ("the call before was not {}", "the call before was {}"),
    f"={START}": ("it was not the first call", "it was the first call"),
}
"""What is false and true of a run, by the source of a fact, or by the fact."""
_YES_OR_NO: Final = frozenset({"true", "false"})  # of which one says that it is not the other
_NOTHING: Final[Mapping[str, float]] = {}


class FactTest(NamedTuple):
    """Whether a fact is known with a number above a limit; values and words that are there have the number 1.

    `others` are words of the same source that were in the same decisions: any of them makes it true of a new one. With
    `than`, whether the number is more than `above` beyond that one: of times in days (see `hepm.evidence.compared`).
    With `weights`, whether those of the words that are there sum to more (see `hepm.evidence.wording`).
    """

    source: str
    fact: str
    above: float
    others: tuple[str, ...] = ()
    than: FactName | None = None
    weights: tuple[tuple[str, float], ...] = ()

    def holds(self, known: Facts) -> bool:
        """Whether it is true of what is known."""
        of_source = known.get(self.source, _NOTHING)
        if self.than is not None:
            than = known.get(self.than.source, _NOTHING).get(self.than.fact, math.nan)
            return of_source.get(self.fact, math.nan) - than > self.above
        if self.weights:
            return bool(of_source) and sum(weight for word, weight in self.weights if word in of_source) > self.above
        return any(of_source.get(fact, -math.inf) > self.above for fact in (self.fact, *self.others))

    @property
    def names(self) -> list[FactName]:
        """The facts that it asks for."""
        names = [FactName(self.source, fact) for fact in (self.fact, *self.others)]
        if self.than is not None:
            names.append(self.than)
        return names

    @property
    def any_number(self) -> bool:
        """Whether it asks for a number, whatever that is."""
        return self.above == _ANY

    def is_unknown(self, known: Facts) -> bool:
        """Whether it asks for the result of a tool that was called, and what it returned is not known."""
        silent = known.get(CALLED, _NOTHING).keys() - known.keys()
        return bool(silent) and any(name.source.removeprefix(RESULTS_OF) in silent for name in self.names)

    def asks_about_called(self, known: Facts) -> bool:
        """Whether it does not ask for the result of a tool that was not called; of words, whether some speak for it."""
        if self.weights:
            return bool(self._telling(known.get(self.source, _NOTHING), holds=self.holds(known)))
        if self.than is not None:
            return all(fact in known.get(source, _NOTHING) for source, fact in self.names)
        return self.source.startswith("<") or self.source.removeprefix(RESULTS_OF) in known

    def sentence(self, known: Facts) -> str:
        """The answer in words, given what is known: "get_order says status is shipped"."""
        holds = self.holds(known)
        of_source = known.get(self.source, _NOTHING)
        if self.weights or (holds and self.others):
            there = self._telling(of_source, holds=holds)
            if there:
                return f"{self._says(True)} {_quoted(there if self.weights else there[:1])}"
        is_plain = self.than is not None or "~" in self.fact or self.fact.endswith(PRESENT) or self.any_number
        if holds or is_plain or self.source in _OF_RUN:
            return self.in_words(holds=holds)
        if "=" in self.fact:
            key, _, value = self.fact.partition("=")
            others = [fact for fact in of_source if fact.startswith(f"{key}=") and not fact.endswith(PRESENT)]
            if len(others) != 1:
                return self.in_words(holds=False)
            said = self._replace(fact=others[0]).in_words(holds=True)
            return said if value in _YES_OR_NO else f"{said}, not {value}"
        if self.fact in of_source:
            return f"{self._number_says} {self._amount(of_source[self.fact])}, not {self._beyond}"
        return f"{self._says(False)} {self._name} is {self._beyond}"

    def in_words(self, *, holds: bool) -> str:
        """One of its answers in words, whatever is known; a number that is not above the limit is known."""
        of_run = _OF_RUN.get(self.fact) or _OF_RUN.get(self.source)
        if of_run is not None:
            most = int(self.above)  # of 0.5 calls 0: whether it was called at all
            times = {0: "", 1: " more than once"}.get(most, f" more than {most} times")
            return of_run[holds].format(self.fact.removeprefix("=")) + times
        if "~" in self.fact:
            return f"{self._says(holds)} {_quoted([word for word, _ in self.weights] or [self.fact])}"
        if self.fact.endswith(PRESENT):
            has = "has" if holds else "has no"
            return f"{self.source.removeprefix(RESULTS_OF)} {has} {self.fact.removesuffix(PRESENT)}"
        if "=" in self.fact:
            key, _, value = self.fact.partition("=")
            return f"{self._says(holds)} {key or 'the result'} is {value}"
        if self.any_number:
            return f"{self._says(holds)} {'a number' if self.fact == '#' else self._name}"
        return f"{self._number_says} {self._limit_in_words(holds=holds)}"

    def _telling(self, known: Mapping[str, float], *, holds: bool) -> list[str]:
        """The words that are there and speak for an answer, the most telling first."""
        sign = 1 if holds else -1
        weights = self.weights or [(word, 1.0) for word in (self.fact, *self.others)]
        return [word for word, weight in weights[::sign] if word in known and sign * weight > 0]

    def _other_in_words(self, than: FactName) -> str:
        """What its number is compared with."""
        other = FactTest(*than, 0.0)._name
        if than.source in _SPEAKERS:
            return f"{other} that {_SPEAKERS[than.source]} says"
        if than.source in (self.source, NOW):
            return other
        return f"{other} of {than.source}"

    def _says(self, holds: bool) -> str:
        if self.source.startswith(RESULTS_OF):
            return f"{'a' if holds else 'no'} result of {self.source.removeprefix(RESULTS_OF)} says"
        speaker = _SPEAKERS.get(self.source, self.source)
        return f"{speaker} {'says' if holds else 'does not say'}"

    def _limit_in_words(self, *, holds: bool) -> str:
        if self.than is not None:
            limit = self._other_in_words(self.than)
        elif self.fact.endswith("[]"):  # a whole number, whose limit lies half-way between two
            most = math.floor(self.above)
            return f"{most + 1} or more" if holds else f"at most {most}"
        else:
            limit = self._amount(self.above)
        if not self._is_date:
            return f"{'above' if holds else 'at most'} {limit}"
        if self.than is None or not self.above:
            return f"{'' if holds else 'not '}after {limit}"
        return f"{'more than' if holds else 'at most'} {_days_in_words(self.above)} after {limit}"

    @property
    def _is_date(self) -> bool:
        return self.fact.endswith(DATE)

    def _amount(self, value: float) -> str:
        if self._is_date:  # of the middle of two dates the earlier day
            return str(date(1970, 1, 1) + timedelta(days=FIRST_DAY + math.floor(value)))
        return f"{value:g}"

    @property
    def _beyond(self) -> str:
        return f"{'after' if self._is_date else 'above'} {self._amount(self.above)}"

    @property
    def _number_says(self) -> str:
        if self.source == NOW:
            return f"{self._name} is"
        if self.fact == "#":
            return f"{self._name} that {self._says(True)} is"
        return f"{self._says(True)} {self._name} is"

    @property
    def _name(self) -> str:
        """The number in words: "items[]" is how many items a list has, and "[]" how many the result has."""
        if self.source == NOW:
            return "now"
        if self.fact == "#":
            return "the largest number"
        if not self.fact.endswith("[]"):
            return self.fact.rstrip(DATE) or "the result"
        return f"the number of {self.fact.removesuffix('[]') or 'items'}"

    @property
    def key(self) -> str:
        """The fact without its value or word: "status=" of "status=shipped"; a number as it is."""
        return _VALUE.sub("", self.fact)

    @property
    def result_word(self) -> bool:
        """Whether it is about a single word of the text of a result."""
        return "~" in self.fact and not self.source.startswith("<")

    @property
    def readable(self) -> bool:
        """Whether a sentence with it says anything: "says and is above 90" and "id is above 90" do not."""
        if _NUMBER_OF_ONE.search(self.fact) and not self.source.startswith("<"):
            return False
        named = self.fact.partition("=")[0]
        return self.source in (CALLED, SINCE) or re.split("[.~]", named)[-1].rstrip(DATE) not in FUNCTION_WORDS


def _quoted(facts: Sequence[str]) -> str:
    """A word, or some of several, rather those that say what a text is about."""
    words = sorted((fact.rpartition("~")[2] for fact in facts), key=FUNCTION_WORDS.__contains__)
    quoted = ", ".join(f'"{word}"' for word in words[:3])
    return quoted if len(facts) == 1 else f"words such as {quoted}"


def _days_in_words(days: float) -> str:
    if days < 2:
        return f"{days * 24:.3g} hours"
    return f"{days:.3g} days"


class Questions:
    """Tests that are asked together.

    Attributes:
        users: Those that ask who the user is.
        others: The tools of which enough results are known that have not one of the facts asked.
    """

    def __init__(self, tests: Sequence[FactTest], others: Iterable[ToolName] = ()) -> None:
        self.tests = tuple(tests)
        self.others = frozenset(others)
        self.users = [number for number, test in enumerate(tests) if test.source == USER]
        self._others: list[tuple[int, FactTest, dict[str, float]]] = []  # comparisons, and wordings with their weights
        self._by_fact: dict[str, dict[str, list[tuple[int, float]]]] = {}
        for number, test in enumerate(tests):
            if test.weights or test.than is not None:
                self._others.append((number, test, dict(test.weights)))
            if test.weights:
                continue
            for source, fact in test.names:
                asked = self._by_fact.setdefault(source, {}).setdefault(fact, [])
                if test.than is None:
                    asked.append((number, test.above))

    def is_unlike_all(self, source: str, facts: Facts) -> bool:
        """Whether a tool's result is known, and has not one of the facts asked, as hardly any result before."""
        if source.startswith("<") or source in self.others:
            return False
        asked, known = self._by_fact.get(source, {}), facts.get(source, _NOTHING)
        return bool(asked and known) and asked.keys().isdisjoint(known.keys())

    def answers(self, facts: Facts) -> BoolArray:
        """Which of the tests are true of what is known, shape (F,)."""
        true = bytearray(len(self.tests))  # set one by one, faster than an array
        for source, asked in self._by_fact.items():
            known = facts.get(source, _NOTHING)
            for fact in asked.keys() & known.keys():
                for number, above in asked[fact]:
                    true[number] |= known[fact] > above
        for number, test, weights in self._others:
            known = facts.get(test.source, _NOTHING)
            if weights and known:  # few words, where the test has hundreds
                true[number] = sum(map(weights.get, known, repeat(0.0))) > test.above
            else:
                true[number] = test.holds(facts)
        return np.frombuffer(true, dtype=np.bool_)


def with_other_results(tests: Sequence[FactTest], decisions: Sequence[Decision], numbers: FactNumbers) -> Questions:
    """These tests, and of which tools results without any of the facts that they ask were known before decisions."""
    names = [name for test in tests for name in test.names]
    asked = {numbers[name] for name in names}
    segments = [segment for decision in decisions for segment in decision.known]
    times = Counter(map(id, segments))
    found = Counter[str]()
    for segment in {id(segment): segment for segment in segments}.values():
        facts: list[int] = segment.fact_F.tolist()
        if facts and asked.isdisjoint(facts):
            found[numbers.names[facts[0]].source] += times[id(segment)]
    # After three such results one more is not strange.
    return Questions(tests, [name.source for name in names if found[name.source] >= 3])


class KnownFacts(NamedTuple):
    """What was known before N decisions: the row of the decision, the number of the fact, its value; shapes (E,)."""

    decisions: Sequence[Decision]
    names: Sequence[FactName]
    row_E: IndexArray
    fact_E: IntArray
    value_E: Float32Array

    @classmethod
    def of(cls, decisions: Sequence[Decision], numbers: FactNumbers) -> KnownFacts:
        """Of decisions whose facts have these numbers."""
        rows: list[int] = []
        segments: list[Segment] = []
        for row, decision in enumerate(decisions):
            calls = facts_of_calls(decision.past, decision.flags, decision.run.user)
            here = [*decision.known, *map(numbers.segment, calls.keys(), calls.values())]
            segments += here
            rows += [row] * len(here)
        facts_S, values_S = zip(*segments, strict=True)
        fact_E = np.concatenate(facts_S)
        return cls(decisions, numbers.names, np.repeat(rows, list(map(len, facts_S))), fact_E, np.concatenate(values_S))

    def among(self, rows: IndexArray) -> KnownFacts:
        """What was known before some of the decisions, which keep their rows."""
        kept_E = np.isin(self.row_E, rows)
        return self._replace(row_E=self.row_E[kept_E], fact_E=self.fact_E[kept_E], value_E=self.value_E[kept_E])

    def most_known(self, fewest: int) -> Iterator[tuple[int, int]]:
        """The numbers of facts known before so many of the decisions, each with how many, most first."""
        known_F = np.bincount(self.fact_E)
        for number in np.argsort(-known_F, kind="stable"):
            if known_F[number] < fewest:
                return
            yield int(number), int(known_F[number])

    def column(self, number: int) -> Float32Array:
        """The value of a fact before each decision, NaN where it is not known, shape (N,)."""
        column_N = np.full(len(self.decisions), np.nan, dtype=np.float32)
        of_fact = self.fact_E == number
        column_N[self.row_E[of_fact]] = self.value_E[of_fact]
        return column_N


class TestedRows(NamedTuple):
    """Of N decisions and F tests: which test is true of which decision, shape (N, F)."""

    tests: tuple[FactTest, ...]
    true_NF: BoolArray


def tests_of(
    known: KnownFacts,
    family_N: IndexArray,
    *,
    fewest: int,
    keep: Callable[[FactTest], bool],
) -> TestedRows:
    """The tests that are true of at least `fewest` decisions and false of as many, and hold in several families.

    Args:
        keep: Which tests are wanted.
    """
    count = len(known.decisions)
    order = np.lexsort((known.row_E, known.fact_E))
    row_E, fact_E, value_E = known.row_E[order], known.fact_E[order], known.value_E[order]
    _, starts, times = np.unique(fact_E, return_index=True, return_counts=True)
    tests: list[FactTest] = []
    columns: list[BoolArray] = []
    for start, end in zip(starts.tolist(), (starts + times).tolist(), strict=True):
        name = known.names[int(fact_E[start])]
        # When a run was made says nothing of the next.
        if end - start < fewest or name.fact.endswith(TIME):
            continue
        rows, values = row_E[start:end], value_E[start:end]
        for limit in limits(name, values):
            column = np.zeros(count, dtype=np.bool_)
            column[rows[values > limit]] = True
            test = FactTest(*name, limit)
            if fewest <= np.count_nonzero(column) <= count - fewest and keep(test):
                tests.append(test)
                columns.append(column)
    if not tests:
        return TestedRows((), np.zeros((count, 0), dtype=np.bool_))
    true_FN = np.array(columns)
    kept = _in_several_families(true_FN, family_N)
    chosen = _distinct(tests, true_FN, kept, {decision.place.tool for decision in known.decisions})
    return TestedRows(tuple(chosen), np.ascontiguousarray(true_FN[list(chosen.values())].T))


def limits(name: FactName, value_X: Float32Array) -> list[float]:
    """What the values of a fact are compared with: `_ANY`, and numbers half-way between them, spread evenly."""
    if name.presence:
        return [_THERE]
    distinct = np.unique(value_X)
    between = (distinct[1:] + distinct[:-1]) / 2
    most = 6 if name.fact.endswith(DATE) else 16  # dates rarely decide
    if len(between) > most:
        quantiles = np.quantile(value_X, np.linspace(0, 1, most + 2)[1:-1])
        between = between[np.unique(np.minimum(np.searchsorted(between, quantiles), len(between) - 1))]
    # A tool that was called was called at least once.
    return [_THERE if name.source == CALLED else _ANY, *map(float, between)]


def _in_several_families(true_FN: BoolArray, family_N: IndexArray) -> list[int]:
    """The tests with several families on each side; all where there are fewer than 8."""
    size_M = np.bincount(family_N)
    if len(size_M) < 8:
        return list(range(len(true_FN)))
    yes_FM = counts_by(true_FN.T, family_N).T
    several = ((yes_FM > 0).sum(axis=1) >= _FEWEST_FAMILIES) & ((yes_FM < size_M).sum(axis=1) >= _FEWEST_FAMILIES)
    return np.flatnonzero(several).tolist()


def _distinct(
    tests: Sequence[FactTest], true_FN: BoolArray, numbers: Iterable[int], last_tools: set[str]
) -> dict[FactTest, int]:
    """Of the tests with these numbers those that are true of different decisions, and the row of each.

    Of several that are true of the same decisions, what the last call returned comes first: it explains more than a
    word of the user. Of words the longest says most, "quarantine" rather than "must"; up to eight others go with it.
    """
    ranks = {CALLED: 3, SINCE: 3, BEFORE: 4, SAID_LAST: 5, SAID: 6, USER: 7} | dict.fromkeys(last_tools, 0)

    def order(number: int) -> tuple[int, str, int, FactTest]:
        test = tests[number]
        return ranks.get(test.source, 1), test.source, len(test.fact) * -("~" in test.fact), test

    equal: dict[bytes, list[int]] = {}
    for number in sorted(numbers, key=order):
        equal.setdefault(np.packbits(true_FN[number]).tobytes(), []).append(number)
    chosen: dict[FactTest, int] = {}
    for first, *further in equal.values():
        test, others = tests[first], [tests[number] for number in further if "~" in tests[first].fact]
        words = [other.fact for other in others if other.source == test.source and "~" in other.fact]
        chosen[test._replace(others=tuple(words[:8]))] = first
    return chosen


def counts_by(true_NF: BoolArray, group_N: Labels) -> IndexArray:
    """How often each test is true in each group of rows that occurs, shape (G, F)."""
    order_N = np.argsort(group_N, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(group_N[order_N]) != 0))
    # Not `@`: on busy cores the threads of a BLAS wait for each other.
    return np.add.reduceat(true_NF[order_N], starts, axis=0, dtype=np.intp)


def gains(true_NF: BoolArray, label_N: Labels, known_NF: BoolArray | None = None) -> FloatArray:
    """Information gain of each test, in nats, shape (F,), of all rows or of those where its answer is known."""
    yes_FC = counts_by(true_NF, label_N).T
    total_FC = np.unique(label_N, return_counts=True)[1][None]
    if known_NF is not None:
        total_FC = counts_by(known_NF, label_N).T
    return _within(yes_FC) + _within(total_FC - yes_FC) - _within(total_FC)


def _within(counts_FC: Labels) -> FloatArray:
    """Σ n ln n of the labels, less N ln N of all."""
    return _information(counts_FC) - _information(counts_FC.sum(axis=1, keepdims=True))


def _information(counts: Labels) -> FloatArray:
    """Σ n ln n over the last axis."""
    # 0 ln 0 is 0: the floor only keeps the logarithm finite.
    return (counts * np.log(np.maximum(counts, 1e-9))).sum(axis=-1)


def cost_of_test(tests: int, labels: int) -> float:
    """Nats that the best of some tests must tell: their choice, 1 for a split, .5 by chance for each further label."""
    return math.log(tests) + 1 + 0.5 * (labels - 1)
