"""In situations like this one: how did the runs end that did this, and how those that did not? Ours.

An *occasion* is a turn of a labelled run after given tools, as a decision of `hepm.evidence`. Where what a lesson says
is right in some and wrong in others, the small tree of `hepm.evidence.place` tells them apart: the way to a leaf of it
is the condition of the lesson, if the lesson is also found in runs of other families, and right there.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from threading import Lock
from typing import Final, NamedTuple, TypeAlias
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from hepm.evidence.decisions import BoolArray, Decision, FactNumbers, LabelledRun, set_families
from hepm.evidence.facts import FactTest, TestedRows, tests_of
from hepm.evidence.nearest import Requests
from hepm.evidence.place import grow_small
from hepm.experience.conditions import Conditions, FactCondition
from hepm.experience.likeness import like_runs
from hepm.experience.transcript import Tools
from hepm.types import SAID, SAID_LAST, START, USER, ToolName

MOST_OCCASIONS: Final = 800
"""Turns at one place that are compared, the latest."""
MOST_FACTS: Final = 3
MOST_WORDS: Final = 12
"""Of one condition: sentences with more are hard to read."""
PURE: Final = 0.95
"""Share of the turns that bear a lesson out, from which on no condition is looked for."""
RELIABLE: Final = 0.75
"""Share from which on a lesson is shown under its condition; wrong labels alone make it lower than 1."""
GROWN: Final = 1.1
"""By so much the turns at a place may grow until its conditions are looked for again."""
FEWEST: Final = 3
"""Runs that bear a lesson out, below which nothing is known of it."""
_VALUE: Final = re.compile(r"(?<=[=~]).*", re.DOTALL)  # "shipped" of "status=shipped"
_FOLDS: Final = 5  # parts of the runs, each of which is asked about what the others teach
_Z: Final = 1.645  # both sides of the interval together leave out 10 %, one side 5 %

_Path: TypeAlias = list[tuple[int, bool]]
"""Tests by their numbers, each with its answer."""


def lower_bound(right: float, wrong: float) -> float:
    """Lower end of Wilson's interval of a share (Wilson 1927), one-sided 95 %: 1 of 1 gives .27, 10 of 10 .79."""
    if not right:
        return 0.0
    n = right + wrong
    share = right / n
    spread = _Z * math.sqrt(share * (1 - share) / n + _Z * _Z / (4 * n * n))
    return (share + _Z * _Z / (2 * n) - spread) / (1 + _Z * _Z / n)


class OccasionEvidence(NamedTuple):
    """What occasions say of a lesson.

    Attributes:
        conditions: The place, with the words and facts under which the lesson is right.
        works: Whether the lesson advises something; else it only warns.
        tried, worked: Runs that did what it is about under the conditions, and those of them in which it worked.
        others, others_worked: The same of the runs that did something else there.
        seen: How many turns there are at the place.
    """

    conditions: Conditions
    works: bool = True
    tried: int = 0
    worked: int = 0
    others: int = 0
    others_worked: int = 0
    seen: int = 0

    @property
    def right(self) -> int:
        """Of those that did it, the runs that bear the lesson out: advice by what worked, a warning by what failed."""
        return self.worked if self.works else self.tried - self.worked

    @property
    def others_right(self) -> int:
        """The same of the others."""
        return self.others_worked if self.works else self.others - self.others_worked

    @property
    def sure(self) -> float:
        """The least share of runs that bear it out (see `lower_bound`)."""
        return lower_bound(self.right, self.tried - self.right)

    @property
    def reliable(self) -> bool:
        """Whether enough of the runs under its conditions bear the lesson out for it to be shown there."""
        surely_more = self.others > 0 and self.sure > self.others_right / self.others
        if not self.works:
            # Where nearly all fail, a tool that failed is no worse than the others.
            often = self.right >= max(FEWEST, RELIABLE * self.tried)
            return often and (surely_more or not self.others)
        if self.worked < max(min(FEWEST, self.worked + self.others_worked), 1):
            return False
        # Most successful runs did it; and most that did it succeeded, or more than of the others.
        usual = self.worked >= RELIABLE * (self.worked + self.others_worked)
        return usual and (surely_more or 2 * self.worked >= self.tried)


class Occasions:
    """The occasions of a namespace, by place; each place is read when it is first asked for, and again as it grows.

    Args:
        runs: In order of arrival; more may be appended.
        numbers: Of the facts of their decisions.
    """

    def __init__(self, runs: Sequence[LabelledRun], numbers: FactNumbers) -> None:
        self.runs = runs
        self._numbers = numbers
        self._read = 0
        self._turns: defaultdict[ToolName, list[tuple[Tools, Decision]]] = defaultdict(list)
        self._places: dict[tuple[Tools, bool | None], OccasionsAt] = {}
        self._lock = Lock()

    def at(self, tools: Collection[ToolName], *, failed: bool | None = None) -> OccasionsAt:
        """The turns after some tools; none at the start.

        Args:
            failed: Those alone where the last call ended in an error, or did not: what is right after a good result
                says nothing of what is after an error. None for all.
        """
        after = Tools(tools) or Tools((START,))
        # Under the lock: two threads that come to a new place would both read it.
        with self._lock:
            self._read_new()
            turns = [decision for before, decision in self._turns[min(after)] if after <= before]
            place = self._places.get((after, failed))
            if place is None or len(turns) > GROWN * place.turns:
                set_families(self.runs)
                place = self._places[after, failed] = OccasionsAt(after, turns, self._numbers, failed=failed)
            return place

    def _read_new(self) -> None:
        new = self.runs[self._read :]
        self._read += len(new)
        for run in new:
            before = Tools((START,))
            for decision in run.decisions:
                for tool in before:
                    self._turns[tool].append((before, decision))
                before = Tools(decision.tools)


class OccasionsAt:
    """The latest N turns at one place; `turns` counts all, failed or not."""

    def __init__(
        self, after: Tools, decisions: Sequence[Decision], numbers: FactNumbers, *, failed: bool | None = None
    ) -> None:
        self.turns = len(decisions)
        self._conditions = Conditions(after=tuple(sorted(after)))
        self._numbers = numbers
        self._rows = [turn for turn in decisions if failed is None or turn.place.failed == failed][-MOST_OCCASIONS:]
        self._well_N = np.array([turn.value >= 0.5 for turn in self._rows], dtype=np.bool_)
        self._run_N = np.array([turn.run.seq for turn in self._rows], dtype=np.intp)
        self._found: dict[tuple[Tools, bool], OccasionEvidence] = {}

    @cached_property
    def _tests(self) -> TestedRows:
        """The tests that conditions are made of."""
        families = [turn.run.family for turn in self._rows]
        family_N = np.unique(families, return_inverse=True)[1].astype(np.intp)
        # Tests that fewer turns meet are not tried: they cost time and decide little.
        fewest = max(FEWEST, len(self._rows) // 100)
        return tests_of(self._rows, self._numbers, family_N, fewest=fewest, keep=_reads_well)

    def evidence(self, *, right: Tools, wrong: Tools) -> OccasionEvidence:
        """Under which conditions tools were right, or, if none is, under which others were wrong.

        Args:
            right: Tools that the lesson advises.
            wrong: Tools that it warns of; they count where it advises none.
        """
        key = right or wrong, bool(right)
        if key not in self._found:
            did_N = self._did(key[0])
            if right:
                # Where it was done and worked it is right; wrong where it failed, or another one worked.
                among_N, right_N = self._well_N | did_N, self._well_N & did_N
            else:
                among_N, right_N = did_N, ~self._well_N
            path = self._narrowed(among_N, right_N)
            conditions, under_N = self._stated(path, among_N, right_N)
            self._found[key] = self._counted(did_N, under_N, conditions, works=bool(right))
        return self._found[key]

    @cached_property
    def _requests(self) -> Requests:
        """What users asked for in the runs of the turns, one for each turn."""
        return Requests.of([turn.run for turn in self._rows])

    def evidence_of_like(self, request: str, *, right: Tools, wrong: Tools) -> OccasionEvidence:
        """`evidence` of the turns of runs with like requests alone, under no other condition."""
        return self._evidence_of(like_runs(self._requests, request), self._conditions, right, wrong)

    def evidence_of_user(self, user: str, *, right: Tools, wrong: Tools) -> OccasionEvidence:
        """`evidence` of the turns of one user's runs alone; nothing of a user with few requests."""
        conditions = replace(self._conditions, user=user)
        # Not runs: one request that was tried five times says what is right for it, not for its user.
        if len({turn.run.words for turn in self._rows if turn.run.user == user}) < FEWEST:
            return OccasionEvidence(conditions, bool(right))
        of_user_N = np.array([turn.run.user == user for turn in self._rows], dtype=np.bool_)
        return self._evidence_of(of_user_N, conditions, right, wrong)

    def _evidence_of(self, under_N: BoolArray, conditions: Conditions, right: Tools, wrong: Tools) -> OccasionEvidence:
        counted = self._counted(self._did(right or wrong), under_N, conditions, works=bool(right))
        return counted._replace(seen=int(under_N.sum()))

    def _did(self, tools: Tools) -> BoolArray:
        return np.array([not tools.isdisjoint(turn.tools) for turn in self._rows], dtype=np.bool_)

    def _counted(
        self, did_N: BoolArray, under_N: BoolArray, conditions: Conditions, *, works: bool
    ) -> OccasionEvidence:
        tried, worked = self._runs(did_N & under_N), self._runs(did_N & under_N & self._well_N)
        others = self._runs(~did_N & under_N) - tried
        others_worked = others & self._runs(~did_N & under_N & self._well_N)
        return OccasionEvidence(conditions, works, len(tried), len(worked), len(others), len(others_worked), self.turns)

    def _runs(self, chosen_N: BoolArray) -> set[int]:
        return set(self._run_N[chosen_N].tolist())

    def _narrowed(self, among_N: BoolArray, right_N: BoolArray) -> _Path:
        """What the turns where a lesson is right have in common; nothing if runs of other families do not bear it out.

        Args:
            among_N: The turns that count.
            right_N: Those that bear the lesson out.
        """
        right = int((among_N & right_N).sum())
        if right < FEWEST or right >= PURE * among_N.sum():
            return []
        path = self._best_path(among_N, right_N)
        if not path:
            return []
        fold_N = self._folds(among_N & right_N)
        elsewhere_N = np.zeros_like(among_N)
        for fold in range(_FOLDS):
            found = self._best_path(among_N & (fold_N != fold), right_N)
            if found is not None:
                elsewhere_N |= (fold_N == fold) & self._under(found)
        under_N = among_N & self._under(path)
        borne_out = int((under_N & elsewhere_N & right_N).sum())
        # Most of its turns must be ones that the others would have told it for, and it must be right there.
        told = int((under_N & elsewhere_N).sum())
        return path if 2 * told >= under_N.sum() and borne_out >= RELIABLE * told else []

    def _folds(self, right_N: BoolArray) -> NDArray[np.intp]:
        """Which part of the runs each turn belongs to: families stay together, where the lesson is of several."""
        right = [self._rows[row].run for row in np.flatnonzero(right_N).tolist()]
        by_family = len({run.family for run in right}) >= FEWEST
        names = [turn.run.family if by_family else turn.run.id for turn in self._rows]
        # In an order that does not depend on that of arrival; where it is right, evenly.
        first = {run.family if by_family else run.id for run in right}
        drawn = sorted(set(names), key=lambda name: (name not in first, crc32(name.encode("utf-8", "replace")), name))
        fold = {name: number % _FOLDS for number, name in enumerate(drawn)}
        return np.array([fold[name] for name in names], dtype=np.intp)

    def _best_path(self, among_N: BoolArray, right_N: BoolArray) -> _Path | None:
        """The way to the leaf with most turns that bear a lesson out, if nearly all do there; None without one."""
        rows = np.flatnonzero(among_N)
        true_NF = self._tests.true_NF
        tree = grow_small(true_NF[rows], right_N[rows].astype(np.intp), deepest=MOST_FACTS)
        leaf_N = tree.leaves(true_NF[rows], 1)[:, 0]
        right_L = np.bincount(leaf_N, right_N[rows])
        right_L[(right_L < FEWEST) | (right_L < RELIABLE * np.bincount(leaf_N))] = 0
        best = int(right_L.argmax())
        if not right_L[best]:
            return None
        true_F = true_NF[rows[np.argmax(leaf_N == best)]]
        path = [(test, bool(true_F[test])) for test in tree.path(true_F)]
        for step in list(path):
            others = [other for other in path if other != step]
            # Later questions may have made it needless; and what is known says more than what is not.
            for instead in ([], *self._known_instead(*step)):
                if self._bound(others + instead, among_N, right_N) >= self._bound(path, among_N, right_N):
                    path = others + instead
                    break
        return path

    def _known_instead(self, number: int, answer: bool) -> Iterator[_Path]:
        """Other values where something has not one value, and other words where one was not said."""
        asked = self._tests.tests[number]
        key = _VALUE.sub("", asked.fact)
        for other, test in enumerate(self._tests.tests):
            # A number has neither sign: it stays as it is.
            alike = test.source == asked.source and key != asked.fact and _VALUE.sub("", test.fact) == key
            if alike and not answer and other != number:
                yield [(other, True)]

    def _bound(self, path: _Path, among_N: BoolArray, right_N: BoolArray) -> float:
        under_N = among_N & self._under(path)
        right = int((under_N & right_N).sum())
        return lower_bound(right, int(under_N.sum()) - right)

    def _under(self, path: _Path) -> BoolArray:
        """The turns with these answers."""
        under_N = np.ones(len(self._rows), dtype=np.bool_)
        for test, answer in path:
            under_N &= self._tests.true_NF[:, test] == answer
        return under_N

    def _stated(self, path: _Path, among_N: BoolArray, right_N: BoolArray) -> tuple[Conditions, BoolArray]:
        """A path as conditions, and the turns under them."""
        conditions = self._conditions
        under_N = np.ones(len(self._rows), dtype=np.bool_)
        word: tuple[int, bool] | None = None
        for step in path:
            test = self._tests.tests[step[0]]
            if step[1] and test.source == SAID and word is None:
                word = step
                continue
            under_N &= self._under([step])
            if step[1] and test.source == USER:
                conditions = replace(conditions, user=test.fact.removeprefix("="))
            else:
                conditions = replace(conditions, facts=(*conditions.facts, FactCondition(test, step[1])))
        if word is None:
            return conditions, under_N
        said = self._words_said()
        says = self._as_sure(self._tests.tests[word[0]].fact, said, among_N & under_N, right_N)
        said_N = np.array([not words.isdisjoint(says) for words in said], dtype=np.bool_)
        return replace(conditions, says=tuple(word.removeprefix("~") for word in says)), under_N & said_N

    def _words_said(self) -> list[set[str]]:
        """What users had said before each turn: facts such as "~cancel"."""
        names = list(self._numbers)
        of_turns: list[set[str]] = []
        for turn in self._rows:
            words: set[str] = set()
            for segment in turn.known:
                numbers: list[int] = segment.fact_F.tolist()
                words.update(names[number].fact for number in numbers if names[number].source == SAID)
            of_turns.append({word for word in words if FactTest(SAID, word, 0.5).readable})
        return of_turns

    def _as_sure(self, word: str, said: Sequence[set[str]], among_N: BoolArray, right_N: BoolArray) -> list[str]:
        """A word with those that are said in most turns where it is right, and in no other ones."""
        wrong = set[str]().union(*[said[row] for row in np.flatnonzero(among_N & ~right_N).tolist()])
        with_word = [said[row] for row in np.flatnonzero(among_N & right_N).tolist() if word in said[row]]
        times = Counter(other for words in with_word for other in words - wrong - {word})
        fewest = max(FEWEST, len(with_word) / 2)
        others = sorted((other for other in times if times[other] >= fewest), key=lambda other: (-times[other], other))
        return [word, *others][:MOST_WORDS]


def _reads_well(test: FactTest) -> bool:
    """Whether a condition may name it; of messages, which one said a word is left open."""
    return test.readable and test.source != SAID_LAST
