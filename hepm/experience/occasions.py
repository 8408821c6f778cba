"""What tells apart the moments in which a tool was right from those at the same place where another one was.

An *occasion* is a turn of a labelled run after given tools. Of the successful ones, those that called a tool are held
against those that called none of it: a few facts, words of the user, or who the user is, if true of the former alone,
are the condition of the lesson. Each has to pay for its description, as in `hepm.policy.hybrid.trees`; without one
that does, the lesson holds wherever its place is. Ours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cached_property
from threading import Lock
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hepm.experience.conditions import Conditions, FactCondition
from hepm.experience.principle_advice import lower_bound
from hepm.experience.transcript import Tools
from hepm.graph.calls.call_matrix import IN_TURN, CallMatrix, families_of
from hepm.graph.delta import FAILED
from hepm.policy.hybrid.known_facts import CALLED, FactTest, tested, words_said
from hepm.text import FUNCTION_WORDS
from hepm.types import SAID, SAID_LAST, START, USER, ToolName

MOST_OCCASIONS: Final = 800
"""Turns at one place that are compared, the latest."""
# Of one condition: sentences with more are hard to read.
MOST_FACTS: Final = 3
MOST_WORDS: Final = 12
PURE: Final = 0.95
"""Share of the successful turns under a condition that did what the lesson says, from which on no more is asked."""
RELIABLE: Final = 0.75
"""Share from which on a lesson is shown under its condition; wrong labels alone make it lower than 1."""
GROWN: Final = 1.1
"""By so much the turns at a place may grow until its conditions are looked for again."""
FEWEST: Final = 3
"""Turns that bear a lesson out, below which nothing is known of it."""
_SPLIT_COST: Final = 1.0  # nats beside the choice of the test
# Share of the turns with a word in which the lesson must be right.
_SURE_WORD: Final = 0.9

_Column = NDArray[np.bool_]


class OccasionEvidence(NamedTuple):
    """What occasions say of a lesson.

    Attributes:
        conditions: The place, with the words and facts under which the lesson is right.
        right, turns: Of the turns under them that count, those that bear the lesson out. Of advice successful turns
            count, and of a warning those that called the tool.
        usual: Share of the other turns there that bear it out too; 0 for advice, which is compared with nothing.
        all_turns: How many turns of the place count; where hardly any do, all advice is given, and no warning.
        seen: How many turns there are at the place.
        tried, worked: Labelled runs that did what it is about under them, and how many of those succeeded.
        failing: Whether most runs that did what is advised failed, and it is not clear that others failed more often.
    """

    conditions: Conditions
    right: int = 0
    turns: int = 0
    usual: float = 0.0
    all_turns: int = 0
    seen: int = 0
    tried: int = 0
    worked: int = 0
    failing: bool = False

    @property
    def reliable(self) -> bool:
        """Whether enough of the turns under its conditions bear the lesson out for it to be shown there."""
        if self.failing or self.right < max(min(FEWEST, self.all_turns), RELIABLE * self.turns, 1):
            return False
        # Where nearly all fail, a tool that failed is no worse than the others.
        return not self.usual or lower_bound(self.right, self.turns - self.right) > self.usual


class Occasions:
    """The occasions of a namespace, by place; each place is read when it is first asked for.

    `hepm.graph.calls.fits.Fits` makes it of all calls. Of a place that has hardly more turns than before, what was
    found stays; of another one it is found anew while the object is made, so that no prompt waits for it.
    """

    def __init__(self, calls: CallMatrix, former: Occasions | None = None) -> None:
        self._calls = calls
        self._numbers = {name: number for number, name in enumerate(calls.names)}
        self._places: dict[tuple[Tools, bool | None], OccasionsAt] = {}
        self._lock = Lock()
        known = {} if former is None else former._places.copy()
        for key, place in known.items():
            after, failed = key
            rows_N = self._turns_after(after)
            if place.turns <= len(rows_N) <= GROWN * place.turns:
                self._places[key] = place
            else:
                self._places[key] = OccasionsAt(calls, after, rows_N, failed=failed).with_found(place)

    def at(self, tools: Collection[ToolName], *, failed: bool | None = None) -> OccasionsAt:
        """The turns after some tools; none at the start.

        Args:
            failed: Those alone where the last call ended in an error, or did not: what is right after a good result
                says nothing of what is after an error. None for all.
        """
        after = Tools(tools) or Tools((START,))
        key = after, failed
        with self._lock:
            # Under the lock: two threads that come to a new place would both read it.
            if key not in self._places:
                self._places[key] = OccasionsAt(self._calls, after, self._turns_after(after), failed=failed)
            return self._places[key]

    def _turns_after(self, after: Tools) -> NDArray[np.intp]:
        """The first rows of the turns right after one that called some tools."""
        rows_N: NDArray[np.intp] | None = None
        none = np.zeros(0, dtype=np.intp)
        for tool in after:
            after_tool = self._calls.by_turn.get(self._numbers.get(tool, -1), none)
            # Of a turn of parallel calls the first row stands for all.
            after_tool = after_tool[self._calls.flags_N[after_tool] & IN_TURN == 0]
            if rows_N is None:
                rows_N = after_tool
            else:
                rows_N = np.intersect1d(rows_N, after_tool)
        return none if rows_N is None else rows_N


class OccasionsAt:
    """The latest N turns at one place, each by the row of its first call; `turns` counts all, failed or not."""

    def __init__(
        self, calls: CallMatrix, after: Tools, rows_N: NDArray[np.intp], *, failed: bool | None = None
    ) -> None:
        self.turns = len(rows_N)
        if failed is not None:
            rows_N = rows_N[(calls.flags_N[rows_N] & FAILED != 0) == failed]
        self._calls = calls
        self._conditions = Conditions(after=tuple(sorted(after)))
        # Rows are in order of arrival: the last ones are the latest.
        self._rows_N = rows_N[-MOST_OCCASIONS:]
        self._runs_N = calls.run_N[self._rows_N]
        self._well_N = calls.success_R[self._runs_N]
        self._called = [_tools_of_turn(calls, row) for row in self._rows_N.tolist()]
        self._found: dict[tuple[Tools, bool], OccasionEvidence] = {}

    @cached_property
    def _tests(self) -> tuple[list[FactTest], NDArray[np.bool_]]:
        """Tests of results and calls, and which is true of which turn, shape (N, F)."""
        # Tests that fewer turns meet are not tried: they cost time and decide little.
        fewest = max(FEWEST, len(self._rows_N) // 100)
        calls = tested(self._calls, self._rows_N, fewest=fewest)
        true_NF = calls.true_NF > 0
        # What users said is in `_words`.
        kept: list[int] = []
        for column, test in enumerate(calls.tests):
            if test.source not in (SAID, SAID_LAST) and test.readable:
                kept.append(column)
        return [calls.tests[column] for column in kept], true_NF[:, kept]

    @cached_property
    def _words(self) -> tuple[list[str], NDArray[np.bool_]]:
        """What users had said. Equal words all stay: another user may say one of them alone."""
        words, said_NW = words_said(self._calls, self._rows_N, fewest=FEWEST)
        kept: list[int] = []
        for column, word in enumerate(words):
            if word not in FUNCTION_WORDS:
                kept.append(column)
        return [words[column] for column in kept], said_NW[:, kept]

    @cached_property
    def _family_N(self) -> NDArray[np.intp]:
        """The family of the run of each turn, as a number."""
        families = families_of(self._calls, self._runs_N.tolist())
        return np.unique(families, return_inverse=True)[1]

    def evidence(self, *, right: Tools, wrong: Tools) -> OccasionEvidence:
        """Under which conditions tools were right, or, if none is, under which others were wrong.

        Args:
            right: Tools that the lesson advises.
            wrong: Tools that it warns of; they count where it advises none.
        """
        tools, works = right or wrong, bool(right)
        key = tools, works
        if key not in self._found:
            self._found[key] = self._find(tools, works=works)
        return self._found[key]

    def with_found(self, former: OccasionsAt) -> OccasionsAt:
        """The same after it found what was asked of the place before."""
        for tools, works in list(former._found):
            self._found[tools, works] = self._find(tools, works=works)
        return self

    def evidence_in(self, runs: Collection[str], *, right: Tools, wrong: Tools) -> OccasionEvidence:
        """`evidence` of the turns of some runs alone, under no other condition."""
        tools, works = right or wrong, bool(right)
        tried: set[int] = set()
        worked: set[int] = set()
        bears_out = counted = seen = 0
        for run in runs:
            for turn in self._turns_of.get(run, ()):
                seen += 1
                did = not tools.isdisjoint(self._called[turn])
                well = bool(self._well_N[turn])
                if did:
                    tried.add(int(self._runs_N[turn]))
                if did and well:
                    worked.add(int(self._runs_N[turn]))
                # Of advice successful turns count, of a warning those that called the tool.
                if works and well:
                    counted += 1
                    bears_out += did
                elif did and not works:
                    counted += 1
                    bears_out += not well
        failing = works and 2 * len(worked) < len(tried)
        return OccasionEvidence(
            self._conditions, bears_out, counted, 0.0, counted, seen, len(tried), len(worked), failing
        )

    def evidence_of_user(self, user: str, *, right: Tools, wrong: Tools) -> OccasionEvidence:
        """`evidence` of the turns of one user's runs alone; nothing of a user with few requests."""
        runs = self._runs_of.get(user, ())
        # Not runs: one request that was tried five times says what is right for it, not for its user.
        requests: set[object] = set()
        run_ids: list[str] = []
        for run in runs:
            requests.add(self._calls.request_R[run])
            run_ids.append(self._calls.run_ids[run])
        if len(requests) < FEWEST:
            return OccasionEvidence(self._conditions)
        evidence = self.evidence_in(run_ids, right=right, wrong=wrong)
        return evidence._replace(conditions=replace(self._conditions, user=user))

    @cached_property
    def _runs_of(self) -> dict[str, list[int]]:
        """The runs of each user at this place."""
        runs_of: defaultdict[str, list[int]] = defaultdict(list)
        runs: list[int] = np.unique(self._runs_N).tolist()
        for run in runs:
            runs_of[self._calls.user_R[run]].append(run)
        return runs_of

    @cached_property
    def _turns_of(self) -> dict[str, list[int]]:
        """The turns of each run, by its id, as numbers from 0 to N - 1."""
        turns_of: defaultdict[str, list[int]] = defaultdict(list)
        for turn, run in enumerate(self._runs_N):
            turns_of[self._calls.run_ids[int(run)]].append(turn)
        return turns_of

    # N is the number of turns at this place.
    def _find(self, tools: Tools, *, works: bool) -> OccasionEvidence:
        did_N = np.array([not tools.isdisjoint(called) for called in self._called], dtype=np.bool_)
        # Advice is right where successful runs followed it, and wrong where they did without; a warning is right where
        # those who called the tool failed, and wrong where they succeeded.
        if works:
            among_N, right_N = self._well_N, did_N
        else:
            among_N, right_N = did_N, ~self._well_N
        conditions, under_N = self._narrowed(among_N, right_N)
        failing = works and self._fails(did_N, under_N)
        if failing:
            # Some condition that successes share may tell them from the failures of the same call.
            conditions, under_N = self._narrowed(self._well_N | did_N, self._well_N & did_N)
            failing = self._fails(did_N, under_N)
        right = int((among_N & right_N & under_N).sum())
        turns = int((among_N & under_N).sum())
        tried = np.unique(self._runs_N[did_N & under_N])
        worked = np.unique(self._runs_N[did_N & under_N & self._well_N])
        usual = 0.0
        others_N = ~did_N & under_N
        if not works and others_N.any():
            usual = float(np.mean(~self._well_N[others_N]))
        all_turns = int(among_N.sum())
        if not works:
            # One failure is no reason to warn of a tool, however little is known.
            all_turns = max(all_turns, FEWEST)
        return OccasionEvidence(
            conditions, right, turns, usual, all_turns, self.turns, len(tried), len(worked), failing
        )

    def _fails(self, did_N: _Column, under_N: _Column) -> bool:
        """Whether most turns that did it failed, and it is not clear that the others did worse."""
        won = int((did_N & under_N & self._well_N).sum())
        lost = int((did_N & under_N).sum()) - won
        others_N = ~did_N & under_N
        if lost <= won:
            return False
        return not others_N.any() or lower_bound(won, lost) <= float(np.mean(self._well_N[others_N]))

    def _narrowed(self, among_N: _Column, right_N: _Column) -> tuple[Conditions, _Column]:
        """The conditions under which a lesson is right, and which turns they hold in."""
        enough = (among_N & right_N).sum() >= FEWEST
        # Where all agree there is nothing to tell apart, and no condition is needed.
        disputed = (among_N & ~right_N).any()
        if not (enough and disputed):
            return self._conditions, np.ones_like(among_N)
        search = _Search(*self._tests, *self._words, among_N, right_N, self._family_N)
        search.run()
        conditions = replace(self._conditions, says=search.says, facts=tuple(search.facts), user=search.user)
        return conditions, search.everywhere


class _Search:
    """Narrows turns down, one condition at a time, to those where a lesson is right.

    Attributes:
        says, facts, user: The conditions found.
        everywhere: Of which turns they are true, of whatever outcome.
    """

    def __init__(
        self,
        tests: Sequence[FactTest],
        true_NF: NDArray[np.bool_],
        words: Sequence[str],
        words_NW: NDArray[np.bool_],
        among_N: _Column,
        right_N: _Column,
        family_N: NDArray[np.intp],
    ) -> None:
        self.says: tuple[str, ...] = ()
        self.facts: list[FactCondition] = []
        self.user = ""
        self.everywhere = np.ones_like(among_N)
        self._among_N, self._right_N = among_N, right_N
        self._words, self._words_NW = words, words_NW
        self._candidates: list[FactCondition] = []
        columns: list[_Column] = []
        for column, test in enumerate(tests):
            for condition in _conditions_of(test):
                self._candidates.append(condition)
                true_N = true_NF[:, column]
                columns.append(true_N if condition.true else ~true_N)
        if columns:
            self._true_NF = np.stack(columns, axis=1)
        else:
            self._true_NF = np.zeros((len(among_N), 0), dtype=np.bool_)
        self._alone_F = self._alone(self._true_NF, family_N)
        self._alone_W = self._alone(words_NW, family_N)
        of_user = [condition.test.source == USER for condition in self._candidates]
        self._of_user_F = np.array(of_user, dtype=np.bool_)

    def _alone(self, true_NC: NDArray[np.bool_], family_N: NDArray[np.intp]) -> NDArray[np.bool_]:
        """What is true in too few families of runs where the lesson is right: a name, or an id of one of them."""
        right = np.flatnonzero(self._among_N & self._right_N)
        families, family_R = np.unique(family_N[right], return_inverse=True)
        first = np.searchsorted(np.sort(family_R), np.arange(len(families)))
        in_family_GC = np.logical_or.reduceat(true_NC[right[np.argsort(family_R, kind="stable")]], first, axis=0)
        return in_family_GC.sum(axis=0) < min(FEWEST, len(families))

    def run(self) -> None:
        """Add one condition after another as long as each pays for its description."""
        for _ in range(MOST_FACTS):
            now_N = self._among_N & self.everywhere
            right, wrong = self._counts(now_N)
            if right >= PURE * (right + wrong):
                break
            fact, worth = self._best_fact(now_N, users=False)
            words, worth_of_words, said_N = self._best_words(now_N)
            if max(worth, worth_of_words) <= 0:
                # Who the user is comes last: what else tells the turns apart holds for others, too.
                fact, worth = self._best_fact(now_N, users=True)
            if max(worth, worth_of_words) <= 0:
                break
            if worth >= worth_of_words:
                self._add(self._candidates[fact])
                self.everywhere &= self._true_NF[:, fact]
            else:
                self.says = words
                self.everywhere &= said_N

    def _add(self, condition: FactCondition) -> None:
        if condition.test.source == USER and condition.true:
            self.user = condition.test.fact.removeprefix("=")
        else:
            self.facts.append(condition)

    def _counts(self, now_N: _Column) -> tuple[int, int]:
        return int((now_N & self._right_N).sum()), int((now_N & ~self._right_N).sum())

    def _best_fact(self, now_N: _Column, *, users: bool) -> tuple[int, float]:
        """The fact that tells most, and what it is worth in nats after its cost.

        Args:
            users: Whether it may be who the user is.
        """
        if not self._candidates:
            return -1, 0.0
        right_F = (self._true_NF & (now_N & self._right_N)[:, None]).sum(axis=0)
        wrong_F = (self._true_NF & (now_N & ~self._right_N)[:, None]).sum(axis=0)
        right, wrong = self._counts(now_N)
        worth_F = _gain(right_F, wrong_F, right, wrong) - np.log(len(self._candidates)) - _SPLIT_COST
        # What holds in one or two turns is an accident.
        worth_F[right_F < FEWEST] = -np.inf
        # What is more often right by this condition than without it, not what is less so.
        worth_F[right_F * (right + wrong) <= right * (right_F + wrong_F)] = -np.inf
        worth_F[self._alone_F & ~self._of_user_F] = -np.inf
        if not users:
            worth_F[self._of_user_F] = -np.inf
        best = int(np.argmax(worth_F))
        return best, float(worth_F[best])

    def _best_words(self, now_N: _Column) -> tuple[tuple[str, ...], float, _Column]:
        """Words of which users say one where the lesson is right, none of them elsewhere."""
        said_N = np.zeros_like(now_N)
        if not self._words or self.says:
            return (), 0.0, said_N
        chosen: list[int] = []
        right, wrong = self._counts(now_N)
        cost = float(np.log(len(self._words)) + _SPLIT_COST)
        while len(chosen) < MOST_WORDS:
            left_N = now_N & ~said_N
            right_W = (self._words_NW & (left_N & self._right_N)[:, None]).sum(axis=0)
            wrong_W = (self._words_NW & (left_N & ~self._right_N)[:, None]).sum(axis=0)
            sure_W = (right_W >= _SURE_WORD * np.maximum(right_W + wrong_W, 1)) & ~self._alone_W
            worth_W = np.where(sure_W, right_W * np.log((right + wrong) / max(right, 1)), 0.0)
            best = int(np.argmax(worth_W))
            if worth_W[best] <= cost:
                break
            chosen.append(best)
            said_N |= self._words_NW[:, best]
        if not chosen:
            return (), 0.0, said_N
        needed = len(chosen)
        chosen += self._as_sure(now_N, chosen)
        said_N |= self._words_NW[:, chosen].any(axis=1)
        right_said, wrong_said = self._counts(now_N & said_N)
        worth = _gain(np.array([right_said]), np.array([wrong_said]), right, wrong)[0] - cost * needed
        return tuple(self._words[word] for word in chosen), float(worth), said_N

    def _as_sure(self, now_N: _Column, chosen: Sequence[int]) -> list[int]:
        """Further words that were said where the lesson is right and nowhere else: another user may say these alone."""
        right_W = (self._words_NW & (now_N & self._right_N)[:, None]).sum(axis=0)
        wrong_W = (self._words_NW & (now_N & ~self._right_N)[:, None]).sum(axis=0)
        right_W[(wrong_W > 0) | (right_W < FEWEST) | self._alone_W] = 0
        order: list[int] = np.argsort(-right_W, kind="stable").tolist()
        return [word for word in order if right_W[word] and word not in chosen][: MOST_WORDS - len(chosen)]


def _conditions_of(test: FactTest) -> list[FactCondition]:
    """A test as conditions. That a value is not there says little, that a call is not there may say much."""
    if test.source in (CALLED, USER) or test.numeric:
        return [FactCondition(test), FactCondition(test, true=False)]
    return [FactCondition(test)]


def _gain(right_F: NDArray[np.intp], wrong_F: NDArray[np.intp], right: int, wrong: int) -> NDArray[np.float64]:
    """Nats that a condition tells about whether the lesson is right, of all turns together."""

    def information(counts: NDArray[np.intp] | NDArray[np.float64]) -> NDArray[np.float64]:
        precise = np.asarray(counts, dtype=np.float64)
        return np.asarray(precise * np.log(np.maximum(precise, 1e-9)))

    def purity(right: NDArray[np.intp], wrong: NDArray[np.intp]) -> NDArray[np.float64]:
        """The log-likelihood of right and wrong turns by their own share."""
        return information(right) + information(wrong) - information(right + wrong)

    with_it_F = purity(right_F, wrong_F)
    without_it_F = purity(right - right_F, wrong - wrong_F)
    all_together = purity(np.array([right]), np.array([wrong]))[0]
    return with_it_F + without_it_F - all_together


def _tools_of_turn(calls: CallMatrix, row: int) -> Tools:
    """The tools of the turn whose first call is in this row."""
    end = row + 1
    while end < len(calls.run_N) and calls.run_N[end] == calls.run_N[row] and calls.flags_N[end] & IN_TURN:
        end += 1
    return Tools(calls.names[int(tool)] for tool in calls.next_N[row:end])
