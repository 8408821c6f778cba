"""The evidence of a memory: a snapshot of its labelled runs, and what they say in a situation."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from math import exp, log, log1p, sqrt
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from hepm.evidence.chance import Chance, Signs
from hepm.evidence.decisions import (
    SINCE,
    BoolArray,
    FloatArray,
    IndexArray,
    LabelledRun,
    Scores,
    Situation,
)
from hepm.evidence.facts import FactTest
from hepm.evidence.nearest import PER_CALL, TEMPERATURE, NearestVote, Requests
from hepm.evidence.place import COMPARED, Counted, PlaceEvidence, Places
from hepm.evidence.values import Way
from hepm.graph.rows import Float32Array
from hepm.types import END, SAID_LAST, USER, USER_SIDE, Facts, ToolName

NEAR_FROM: Final = 0.4
"""Likeness of the nearest request from which on the nearest runs' vote counts in the rank,"""
NEAREST: Final = 2.0
"""and its weight there, where the other signs have 1 together."""
PRIOR: Final = 3.0
"""Decisions of the base rate that are added to what came of a tool, for its rank."""
USUALLY: Final = 0.9
"""Share of the runs that ended at a place, from which on these are compared closer; and of the successful runs with
like requests that call the last tool, as many as which call another one, without which a run is not complete."""
KNOWN: Final = 0.5
"""How surely a request is known, from which on each run of its task is a case of its own."""
MOST_COMPARED: Final = 64
"""Tools that are ranked; of more, those that followed from here and those that most runs called."""
# Of the conditional logit over the tools: a fit to ten domains (benchmarks/LOG.md, "one evidence").
_SHARE, _NAMED, _REMAINING, _CALLED, _TIMES = 1.1, 2.5, 0.4, -0.6, 0.95
_FLOOR: Final = 0.01  # of shares in logarithms
_SMALL: Final = 0.5
"""Part of what is known of ways that the small tree has; the rest is the forest's."""
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD: Final = re.compile(r"[a-z0-9]{2,}")
_STEM: Final = 5  # letters of a word that are compared: "refund" is "refunds" and "refunding"


class EndedHere(NamedTuple):
    """How runs with like requests that came to a place ended; where fewer than `USUALLY` ended there, the share alone.

    Attributes:
        share: Of the successful ones, those that ended there; of `like` ones, effectively (Kish 1965).
        succeeded: Of those that ended there, the successful ones.
        runs: Successful runs that ended there, whatever their requests.
        complete: Whether this run has called all that nearly all of them called.
    """

    share: float = 0.0
    like: float = 0.0
    succeeded: float = 0.0
    runs: int = 0
    complete: bool = False


@dataclass(frozen=True, slots=True)
class Findings:
    """What the memory knows in a situation.

    Attributes:
        ways: What came of each tool in such situations.
        share: The part of each tool in what worked.
        vote: What the nearest runs did next.
        rank: The tools with their scores, the one to name first first, ties by name.
        chance: How often a hint of this tool would be right (see `hepm.evidence.chance`); of unlikely tools 0.
        conditions: The facts that lead to the leaf of the small tree, the first question first.
        by_user: Whether other ways work best for other users, and who the user is is not known.
        counted: Of each tool, the decisions in that leaf.
        leaf: The number of that leaf, None where all decisions count; leaf_N: Which of the place are in it.
        asked: Whether the user has written since the last call; `new_wish` says whether a known request is like that.
        is_new: Whether the request is not known: then all runs of one task are one case.
        task_R: The number of each run's task.
        place: All decisions at this place; `usual` is what the best call achieves there, 0 where that is not known.
        base: Share of successful runs.
        came: Of the successful runs with like requests, the share that called the last tool, by that of all successful
            ones: 1 where no difference is known. What the user wrote last after a call is the request.
        ended: Of the successful runs with like requests that came here, the share that ended here; none if the user
            wrote since.
        strange: The tool whose result the conditions ask about, which has nothing of what such results had; else "".
        ceiling: How often runs succeed after the best calls (see `hepm.evidence.values`).
    """

    ways: Mapping[ToolName, Way]
    share: Scores
    vote: NearestVote
    rank: Scores
    chance: Scores
    conditions: tuple[FactTest, ...] = ()
    by_user: bool = False
    counted: Mapping[ToolName, Counted] = field(default_factory=dict[ToolName, Counted])
    leaf_N: BoolArray | bool = False
    place: PlaceEvidence | None = None
    usual: float = 0.0
    base: float = 0.0
    came: float = 1.0
    ended: EndedHere = EndedHere()
    strange: ToolName = ""
    ceiling: float = 1.0
    leaf: int | None = None
    asked: bool = False
    new_wish: bool = False
    is_new: bool = False
    task_R: IndexArray = field(default_factory=lambda: np.zeros(0, dtype=np.intp))

    @property
    def stopped(self) -> Counted:
        """The runs that ended in that leaf; none if the user wrote since."""
        return Counted(0, 0) if self.place is None or self.asked else self.place.ended(self.leaf)

    @property
    def stopped_in(self) -> int:
        """The tasks of the runs that ended in that leaf and failed."""
        if self.place is None:
            return 0
        lost_X = self.place.end_run_E[self.place.ended_in(self.leaf) & ~self.place.end_won_E]
        return len(np.unique(self.task_R[lost_X]))

    @property
    def went_on(self) -> Mapping[ToolName, Counted]:
        """Of each tool, the decisions in that leaf that no message of the user came before."""
        return {} if self.place is None else self.place.counted(self.leaf_N & ~self.place.asked_N)

    @property
    def wider(self) -> Mapping[ToolName, Way]:
        """What came of each tool at this place, in whatever situation."""
        if self.place is None:
            return {}
        return counted(self.place, np.ones((1, len(self.place.run_N)), dtype=np.float32), self.base, None)[0]

    @property
    def everywhere(self) -> Mapping[ToolName, Counted]:
        """Of each tool, the decisions at this place."""
        return {} if self.place is None else self.place.everywhere


_Ways: TypeAlias = Mapping[ToolName, Way]
_Callers: TypeAlias = dict[ToolName, tuple[IndexArray, IndexArray]]


class ToolCodes(dict[ToolName, int]):
    """Numbers of tools in the order in which they came."""

    def __missing__(self, tool: ToolName) -> int:
        self[tool] = len(self)
        return self[tool]

    def last(self, past: Sequence[ToolName]) -> list[int]:
        """Of the last calls, the latest first; -1 before the first."""
        latest = [self[tool] for tool in past[: -COMPARED - 1 : -1]]
        return latest + [-1] * (COMPARED - len(latest))

    def counts(self, calls_R: Iterable[Sequence[ToolName]], *, first: int = 0) -> IndexArray:
        """How often each run called each tool, as `Learned.called_3P`; runs are numbered from `first` on."""
        pairs: list[tuple[int, int, int]] = []
        for run, calls in enumerate(calls_R, first):
            for tool, times in Counter(calls).items():
                pairs.append((run, self[tool], times))
        return np.array(pairs, dtype=np.intp).reshape(-1, 3).T.copy()

    def lasts(self, calls_R: Iterable[Sequence[ToolName]]) -> IndexArray:
        """The last tool of each run, as `Learned.last_R`."""
        return np.array([self[calls[-1]] if calls else -1 for calls in calls_R], dtype=np.intp)


class _Like(NamedTuple):
    """How like the decisions of a place are: by the forest, by the small tree, by their requests; shapes (N,).

    Attributes:
        group_N: Numbers of the cases that they are of; None if each is one.
        both: Whether the rank is by the forest and the small tree, as the ways are; else it is by the forest alone.
    """

    place: PlaceEvidence
    forest_N: Float32Array
    small_N: BoolArray
    cosine_N: FloatArray
    group_N: IndexArray | None
    both: bool = False


class _Seen(NamedTuple):
    """What came of each tool, and what the nearest runs did.

    Attributes:
        ways: By the trees; `share` is the part of each tool in what worked.
        by_request: The same part where like requests and equal last calls count more.
        by_both: What came of each tool by the forest and the small tree.
        nearest: Shares of the vote as far as they fit.
    """

    ways: _Ways
    share: Scores
    by_request: Scores
    by_both: _Ways
    vote: NearestVote
    nearest: Scores

    @classmethod
    def of(cls, ways: _Ways, asked: _Ways, by_both: _Ways, vote: NearestVote) -> _Seen:
        """By what came of each tool by the trees, and where like requests count more."""
        share = shares(ways)
        return cls(ways, share, shares(asked), by_both, vote, fitting(vote, share))

    def likely(self, *more: Scores) -> set[ToolName]:
        """The tools that have a share of .02 or more by any of these: the chances of others are not asked for."""
        shares = (self.share, self.by_request, self.vote.share, *more)
        return {tool for share in shares for tool, part in share.items() if part >= 0.02}

    def signs(self, tools: Iterable[ToolName], again: AbstractSet[ToolName], named: Scores) -> dict[ToolName, Signs]:
        """What the chances of some tools are read from; `again` and `named` as in `Signs`."""
        few = 1 / (1 + sum(way.worked for way in self.ways.values()))
        signs: dict[ToolName, Signs] = {}
        for tool in tools:
            signs[tool] = Signs(
                self.share.get(tool, 0.0),
                (self.by_request or self.share).get(tool, 0.0),
                (self.nearest or self.share).get(tool, 0.0),
                tool in again,
                named.get(tool, 0.0),
                self.vote.known,
                few,
                self.vote.followed,
            )
        return signs


class _Request(NamedTuple):
    """What is known of a request whatever was called: cosines and weights of the runs, sums of weights by tool called,
    by the last one, also of lost runs, and of all, the effective number of runs (Kish 1965), and shares by tools called
    oftener than so."""

    cosine_R: FloatArray
    voters: Mapping[int, float]
    weight_R: FloatArray
    called_T: FloatArray
    ended_T: FloatArray
    lost_T: FloatArray
    total: float
    effective: float
    oftener: dict[tuple[ToolName, int], float]


@dataclass(frozen=True)
class Learned:
    """What labelled runs say. Immutable.

    Attributes:
        base: Share of successful runs; `ceiling` of those after the best calls.
        support, failures: How many successful, and how many failed runs called each tool.
        called_3P: Numbers of the run and of the tool, and how often it called it, of all P pairs.
        last_R: The number of the last tool of each run; -1 of one without calls.
        whole: Whether all runs were read; else counts are the least there are.
        callers: The runs that called a tool, and how often each did; of the tools that were asked for.
    """

    places: Places
    requests: Requests
    numbers: ToolCodes
    base: float
    ceiling: float
    support: Counter[ToolName]
    failures: Counter[ToolName]
    called_3P: IndexArray
    last_R: IndexArray
    stems: Mapping[ToolName, frozenset[str]]
    chance: Chance = Chance()
    whole: bool = True
    callers: _Callers = field(default_factory=_Callers)

    @cached_property
    def _by_support(self) -> list[ToolName]:
        """The tools that successful runs called, those that most called first, ties by name."""
        return sorted(self.support, key=lambda tool: (-self.support[tool], tool))

    @cached_property
    def _ended(self) -> Counter[int]:
        """How many successful runs ended with each tool, by its number."""
        return Counter(self.last_R[self.requests.won_R].tolist())

    @cached_property
    def _with_stem(self) -> Mapping[str, Sequence[ToolName]]:
        """The tools that have a word in their name."""
        found: defaultdict[str, list[ToolName]] = defaultdict(list)
        for tool, words in self.stems.items():
            for word in words:
                found[word].append(tool)
        return found

    @cached_property
    def _asked(self) -> dict[frozenset[str], _Request]:
        return {}

    def _request(self, words: frozenset[str]) -> _Request:
        """A request by its words, which a session asks about before each call."""
        known = self._asked.get(words)
        if known is None:
            known = self._weighed(self.requests.cosines(words))
            if len(self._asked) >= 64:  # sessions that run at once
                self._asked.clear()
            self._asked[words] = known
        return known

    def _weighed(self, cosine_R: FloatArray) -> _Request:
        won_R = self.requests.won_R
        near_R = np.exp((cosine_R - cosine_R[won_R].max(initial=0.0)) / TEMPERATURE)
        weight_R = near_R * won_R
        run_P, tool_P, _ = self.called_3P
        called_T = np.bincount(tool_P, weight_R[run_P], len(self.numbers)).astype(np.float64)
        ended_T, lost_T = (
            np.bincount(self.last_R + 1, near_R * ended_R, len(self.numbers) + 1)[1:].astype(np.float64)
            for ended_R in (won_R, ~won_R)
        )
        total = float(weight_R.sum())
        effective = total**2 / max(float((weight_R**2).sum()), 1e-9)
        return _Request(
            cosine_R, self.requests.voters(cosine_R), weight_R, called_T, ended_T, lost_T, total, effective, {}
        )

    def at(self, situation: Situation, *, blind: bool, allowed: AbstractSet[ToolName], witness: Scores) -> Findings:
        """What is known in a situation.

        Args:
            blind: Whether nothing of it is known but the calls: then all decisions of the place are like it.
            allowed: Tools that may be called, of those that successful runs called.
            witness: Log-odds that something else adds for a tool.
        """
        place = self.places.get(situation.place)
        request = self._request(situation.words)
        vote = self.requests.vote(request.voters, situation.past, situation.numbers)
        if place is None:
            seen = _Seen.of({}, {}, {}, vote)
            ranked = self._ranked(seen, request, situation, allowed, witness)
            return Findings({}, {}, vote, *ranked, ended=self._of_like_requests(situation, place)[1])
        facts = situation.facts
        true_UF = place.answers(facts)
        is_new = self.chance.known(vote.likeness) < KNOWN
        group_N = self._cases(place) if is_new else None
        forest_N, small_N = place.like(true_UF)
        asked, leaf = place.small.path(true_UF[-1])
        stops_in: int | None = leaf
        conditions = tuple([place.questions.tests[test] for test in asked])
        of_leaf = place.by_leaf.get(leaf, {}) if len(true_UF) == 1 else place.counted(small_N)
        # Of a result that is not known, no test is false.
        if blind or any(test.is_unknown(facts) for test in conditions):
            conditions, of_leaf, stops_in = (), place.everywhere, None
            forest_N, small_N = np.ones_like(forest_N), np.ones_like(small_N)
        # What is there says more than what is missing.
        both = bool(conditions) and bool(true_UF[-1, asked[-1]])
        like = _Like(place, forest_N, small_N, request.cosine_R.take(place.run_N), group_N, both)
        by_user = any(test.source == USER for test in conditions)
        unlike_all = (test.source for test in conditions if place.questions.is_unlike_all(test.source, facts))
        came, ended = self._of_like_requests(situation, place)
        seen = self._seen(like, situation.past, vote)
        rank, chance = self._ranked(seen, request, situation, allowed, witness)
        return Findings(
            seen.by_both,
            seen.share,
            vote,
            rank,
            chance,
            conditions,
            by_user=by_user and len({_best_in_leaf(place, true_F) for true_F in true_UF}) > 1,
            counted=of_leaf,
            leaf_N=small_N,
            place=place,
            usual=place.usual,
            base=self.base,
            came=came,
            ended=ended,
            leaf=stops_in,
            asked=_user_spoke(facts),
            new_wish=_user_spoke(facts) and self._request(situation.wish).cosine_R.max(initial=0.0) >= NEAR_FROM,
            is_new=is_new,
            task_R=self.requests.family_R,
            strange=next(unlike_all, ""),
            ceiling=self.ceiling,
        )

    def _of_like_requests(self, situation: Situation, place: PlaceEvidence | None) -> tuple[float, EndedHere]:
        """`Findings.came` and `Findings.ended`; 1 and none where nothing is known of the request."""
        last, request = situation.place.tool, self._request(situation.wish)
        if not situation.wish or not self.support[last]:
            return 1.0, EndedHere()
        # Where the user has written since, the last call was for the wish before, and what was said decides.
        if _user_spoke(situation.facts):
            return 1.0, EndedHere()
        came = self._came(last, request)
        number = self.numbers[last]
        ended = float(request.ended_T[number])
        if situation.place.failed or not ended:
            return came, EndedHere()
        # Of many decisions at a place some are left out.
        went_on = 0.0
        if place is not None:
            went_on = float(np.add.reduce(request.weight_R.take(place.run_N))) * place.seen / len(place.run_N)
        came_here = ended + went_on
        share = ended / came_here
        if share < USUALLY:
            return came, EndedHere(share)
        usual = np.flatnonzero(request.called_T >= USUALLY * request.called_T[number]).tolist()
        return came, EndedHere(
            share,
            request.effective * came_here / request.total,
            ended / (ended + float(request.lost_T[number])),
            self._ended[number],
            {self.numbers[tool] for tool in situation.past}.issuperset(usual),
        )

    def _came(self, tool: ToolName, request: _Request) -> float:
        of_all = self.support[tool] / np.count_nonzero(self.requests.won_R)
        part = self._called_oftener(tool, 0, request)
        # Of few runs, or where the request hardly says what is wanted, fewer may have called it by chance.
        by_chance = sqrt(of_all * (1 - of_all) / max(request.effective, 1))
        if part >= of_all - by_chance:
            return 1.0
        return part / of_all

    def runs_of(self, found: Findings, tool: ToolName, *, won: bool) -> tuple[str, ...]:
        """Ids of the counted runs that called a tool and succeeded, or failed: the latest first, at most 20."""
        place = found.place
        assert place is not None  # as something was counted
        if tool == END:
            ended_E = place.ended_in(found.leaf) & (place.end_won_E == won)
            latest_ends: list[int] = place.end_run_E[ended_E][:-21:-1].tolist()
            return tuple([self.requests.runs[number].id for number in latest_ends])
        called_N = place.called_NK[:, place.tools.index(tool)] & ((place.value_N == 1) == won)
        # Decisions are in the order of their runs, of which one may have made several.
        latest: dict[int, None] = dict.fromkeys(place.run_N[called_N & found.leaf_N][::-1].tolist())
        return tuple([self.requests.runs[number].id for number in islice(latest, 20)])

    def held_out(self, place: PlaceEvidence, row: int, past: Sequence[ToolName], *, known: bool) -> _Seen:
        """What would have been known before a decision without its run, or without its whole family unless `known`."""
        requests = self.requests
        run = int(place.run_N[row])
        cosine_R = requests.cosines(requests.runs[run].words)
        left_R = requests.family_R != requests.family_R[run]
        if known:
            left_R = np.arange(len(left_R)) != run
        cosine_R = np.where(left_R, cosine_R, -1.0)
        vote = requests.vote(requests.voters(cosine_R), past, requests.runs[run].numbers)
        forest_N, small_N = place.like_unseen(row)
        left_N = left_R[place.run_N]
        group_N = None if known else self._cases(place)
        like = _Like(place, forest_N * left_N, small_N & left_N, cosine_R[place.run_N], group_N)
        return self._seen(like, past, vote)

    def _cases(self, place: PlaceEvidence) -> IndexArray:
        """The numbers of the cases that a place's decisions are of: to a new request all runs of one task are one."""
        return self.requests.family_R[place.run_N]

    def _seen(self, like: _Like, past: Sequence[ToolName], vote: NearestVote) -> _Seen:
        """What came of each tool in situations that are like this one."""
        place, both_N = like.place, _both(like)
        tree_N = both_N if like.both else like.forest_N
        last = [self.numbers.get(tool, -2) for tool in past[: -COMPARED - 1 : -1]]
        last += [-1] * (COMPARED - len(last))
        same_N = matched_N = place.last_N4[:, 0] == last[0]
        matched_N = matched_N.astype(np.uint8)
        for number_N, number in zip(place.last_N4.T[1:], last[1:], strict=True):  # faster than along rows of four
            same_N = same_N & (number_N == number)
            matched_N += same_N
        like_N = like.cosine_N + PER_CALL * matched_N
        near_N = np.exp((like_N - max(np.maximum.reduce(like_N), -9.0)) / TEMPERATURE) * (like.cosine_N >= 0)
        # Where requests are compared, all decisions of the place count, together as .3 of one.
        asked_N = (tree_N + np.float32(0.3 / len(like_N))) * near_N
        weight_XN = np.array([tree_N, asked_N, both_N], dtype=np.float32)
        ways, asked, by_both = counted(place, weight_XN, self.base, like.group_N)
        return _Seen.of(ways, asked, by_both, vote)

    def _ranked(
        self,
        seen: _Seen,
        request: _Request,
        situation: Situation,
        allowed: AbstractSet[ToolName],
        witness: Scores,
    ) -> tuple[Scores, Scores]:
        """The rank and the chances."""
        named = self._named(situation.facts)
        plain = self._plain(self._compared(seen, allowed), seen, request, situation.past, named, witness)
        scores: dict[ToolName, float] = {}
        for tool, part in plain.items():
            scores[tool] = part
            if seen.vote.likeness >= NEAR_FROM:
                scores[tool] += NEAREST * seen.nearest.get(tool, 0.0)
            if tool in seen.by_both:
                way = seen.by_both[tool]
                scores[tool] *= (way.worked + PRIOR * self.base) / ((way.tried + PRIOR) * self.base)
        # Rounded: sums of floats differ in their last digits with the order in which runs came.
        rank = dict(sorted(scores.items(), key=lambda scored: (-round(scored[1], 6), scored[0])))
        likely = seen.likely(plain)
        signs = seen.signs((tool for tool in rank if tool in likely), situation.again, named)
        return rank, self.chance.of(signs, first=not situation.past)

    def _compared(self, seen: _Seen, allowed: AbstractSet[ToolName]) -> list[ToolName]:
        """The tools to rank."""
        if len(allowed) <= MOST_COMPARED:
            return sorted(allowed)
        here = (seen.share.keys() | seen.by_request.keys() | seen.vote.share.keys()) & allowed
        others = (tool for tool in self._by_support if tool in allowed and tool not in here)
        return sorted([*here, *islice(others, max(MOST_COMPARED - len(here), 0))])

    def _plain(
        self,
        tools: Sequence[ToolName],
        seen: _Seen,
        request: _Request,
        past: Sequence[ToolName],
        named: Scores,
        witness: Scores,
    ) -> Scores:
        """How likely each tool is to be called next: a conditional logit."""
        called = Counter(past)
        scores: list[float] = []  # of few tools, one by one: each call of numpy takes as long as ten of these
        for tool in tools:
            times = called.get(tool, 0)
            remaining = request.oftener.get((tool, times))
            if remaining is None:
                remaining = self._called_oftener(tool, times, request)
            score = _SHARE * log(seen.share.get(tool, 0.0) + _FLOOR) + _REMAINING * log(remaining + _FLOOR)
            # What mostly failed here is not better for its name.
            if tool in named and not (tool in seen.ways and 2 * seen.ways[tool].worked < seen.ways[tool].failed):
                score += _NAMED * named[tool]
            if times:
                score += _CALLED + _TIMES * log1p(times)
            scores.append(score + witness.get(tool, 0.0))
        best = max(scores, default=0.0)
        raised = [exp(score - best) for score in scores]
        total = sum(raised)
        return {tool: part / total for tool, part in zip(tools, raised, strict=True)}

    def _called_oftener(self, tool: ToolName, times: int, request: _Request) -> float:
        """The share of the successful runs with like requests that call a tool oftener than so."""
        weight = float(request.called_T[self.numbers[tool]])
        if times:
            if tool not in self.callers:
                run_P, tool_P, times_P = self.called_3P
                of_tool_P = tool_P == self.numbers[tool]
                self.callers[tool] = run_P[of_tool_P], times_P[of_tool_P]
            run_P, times_P = self.callers[tool]
            weight = float(np.add.reduce(request.weight_R.take(run_P[times_P > times])))
        share = request.oftener[tool, times] = weight / max(request.total, 1e-9)
        return share

    def _named(self, facts: Facts) -> Scores:
        """Share of the words of a tool's name that the user's last message has; of tools that have one of them."""
        words = Counter[ToolName]()
        for word in {stem(word.rpartition("~")[2]) for word in facts.get(SAID_LAST, ())}:
            words.update(self._with_stem.get(word, ()))
        return {tool: found / len(self.stems[tool]) for tool, found in words.items()}

    def with_run(self, run: LabelledRun, places: Places) -> Learned:
        """The same with one run more.

        Args:
            places: The places where it decided, with its decisions.
        """
        number = len(self.requests.runs)
        called = Counter(set(run.calls))
        support, failures = self.support, self.failures
        if run.won:
            support = support + called
        else:
            failures = failures + called
        callers = self.callers.copy()
        for tool, times in Counter(run.calls).items():
            if tool in callers:
                run_P, times_P = callers[tool]
                callers[tool] = np.append(run_P, number), np.append(times_P, times)
        return replace(
            self,
            places={**self.places, **places},
            requests=self.requests.with_run(run),
            base=(self.base * (number + 2) + run.won) / (number + 3),
            support=support,
            failures=failures,
            called_3P=np.concatenate([self.called_3P, self.numbers.counts([run.calls], first=number)], axis=1),
            last_R=np.append(self.last_R, self.numbers.lasts([run.calls])),
            stems={**self.stems, **stems_of(called)},
            callers=callers,
        )


def _user_spoke(facts: Facts) -> bool:
    """Whether the user has written since the last call."""
    return "=user" in facts.get(SINCE, ())


def _both(like: _Like) -> Float32Array:
    """Weights by the forest, and by the small tree where requests count too; each sums to its part."""
    weight_N = like.forest_N / max(float(np.add.reduce(like.forest_N)), 1e-9)
    leaf = np.flatnonzero(like.small_N)
    if len(leaf):
        # Within a leaf the likeness of requests says less than elsewhere: a higher temperature.
        cosine = like.cosine_N[leaf]
        near = np.exp((cosine - np.maximum.reduce(cosine)) / 0.5)
        weight_N *= 1 - _SMALL
        weight_N[leaf] += _SMALL * near / np.add.reduce(near)
    return weight_N


def counted(
    place: PlaceEvidence, weight_XN: Float32Array, base: float, group_N: IndexArray | None
) -> list[dict[ToolName, Way]]:
    """What came of each tool, where decisions count by their likeness; by each of X likenesses.

    Args:
        group_N: Numbers of groups whose decisions count as one; None if each counts for itself.
    """
    scales: list[float] = []
    for weight_N, total in zip(weight_XN, np.add.reduce(weight_XN, axis=1).tolist(), strict=True):
        of_group_N = weight_N
        if group_N is not None:
            of_group_N = np.bincount(group_N, weight_N).take(group_N)
        # To the effective number of decisions, or of groups (Kish 1965).
        scales.append(total / float(np.add.reduce(weight_N * of_group_N)) if total > 1e-9 else 0.0)
    found: list[dict[ToolName, Way]] = []
    for sums_3K in place.outcomes(weight_XN * np.array(scales, dtype=np.float32)[:, None]):
        ways: dict[ToolName, Way] = {}
        for tool, worked, failed, cleared in zip(place.tools, *sums_3K.tolist(), strict=True):
            if worked + failed > 0.05:  # of less nothing is said
                ways[tool] = Way(tool, worked, failed, cleared, base)
        found.append(ways)
    return found


def _best_in_leaf(place: PlaceEvidence, true_F: BoolArray) -> ToolName:
    """The tool that worked most in the leaf of the small tree with these answers."""
    leaf_N = place.small_N == place.small.path(true_F)[1]
    worked_K = place.by_tool((leaf_N * place.value_N)[None].astype(np.float32))[0]
    return place.tools[int(worked_K.argmax())]


def fitting(vote: NearestVote, share: Scores) -> Scores:
    """The shares of a vote, counted as far as what the nearest runs did works in such situations.

    Runs of one request part where a result decides: a vote for the other way is no evidence here. Votes count fully
    from a mean weight of .15 on; one for a tool that never worked in such situations has .05.
    """
    fits: dict[ToolName, float] = {}
    total = 0.0
    for tool, part in vote.share.items():
        if tool != END:
            total += part
            fits[tool] = part * (share.get(tool, 0.0) + 0.05)
    fitting_part = max(sum(fits.values()), 1e-9)
    scale = total / fitting_part * min(fitting_part / (0.15 * max(total, 1e-9)), 1.0)
    return {tool: part * scale for tool, part in fits.items()}


def shares(ways: _Ways) -> Scores:
    """The part of each tool in what worked."""
    worked = sum(way.worked for way in ways.values())
    if not worked:
        return {}
    return {tool: way.worked / worked for tool, way in ways.items()}


def stems_of(tools: Iterable[ToolName]) -> dict[ToolName, frozenset[str]]:
    """Stems of the words of each tool's name."""
    return {tool: stems(tool.removeprefix(USER_SIDE)) for tool in tools}


def stems(text: str) -> frozenset[str]:
    """Stems of the words of a text: cut after five letters, so that "cancelled" meets `cancel_order`."""
    return frozenset(map(stem, _WORD.findall(_CAMEL.sub(" ", text).lower().replace("_", " "))))


def stem(word: str) -> str:
    """The first letters of a word, without a plural's s."""
    if word.endswith("s") and 4 <= len(word) <= _STEM:  # "items" is "item", "gas" stays
        return word[:-1]
    return word[:_STEM]
