"""What is computed once for a snapshot of the memory, so that a suggestion only looks it up."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property, lru_cache
from threading import Lock
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hepm.graph.calls.call_matrix import ORDER, CallMatrix, IntArray, RecentlyUsed, families_of
from hepm.graph.calls.fits import GROWN, Fits
from hepm.graph.delta import flags_of, request_of, said_text, words_of
from hepm.graph.mirror.nearest import StateBlock
from hepm.graph.rows import Float32Array, spread_over
from hepm.policy.hybrid.after import CallsAfter
from hepm.policy.hybrid.chance import HonestChance
from hepm.policy.hybrid.known_facts import with_calls
from hepm.policy.hybrid.nearest_runs import NearestRuns
from hepm.policy.hybrid.odds import EncodedQuery, Odds
from hepm.policy.hybrid.ridge import Inputs, Ridge
from hepm.policy.hybrid.trees import PlaceTrees
from hepm.policy.query import Query
from hepm.types import START, USER_SIDE, Facts, StateSummary, ToolName

MOST_RUNS: Final = 1000  # runs that a whole run is compared with
MOST_REQUESTS: Final = 2_000  # successful runs whose requests a request is compared with
MOST_CANDIDATES: Final = 64
"""If memory knows more tools, those that followed the last one and the most called ones are ranked."""
MOST_STATES: Final = 4000  # states that are compared whatever their last tool
MOST_PREPARED: Final = 256
"""The tools after which calls are read ahead. To read those after a further one takes a tenth of a second, once."""
MOST_KEPT: Final = 524_288  # calls after tools that are kept ready for comparison: some 100 bytes each
UNLIKE: Final = 0.08
"""Cosine of a request's content words with a known request, below which they share none: those of recorded runs on new
tasks are at .09 and above, with whatever else the known request says."""
SAME_WORDS: Final = 0.7  # cosine of whole requests, where neither says what is wanted: "please help"
OTHER_ANSWER: Final = 0.3
"""How much less alike states are between which a deciding fact differs: they are no like runs then."""
REGROWN: Final = 1.05  # times as many calls after a tool, from which on its trees are grown again
TEMPERATURE: Final = 0.05  # of every softmax over cosines: what is .05 less similar has 1/e of the vote
FAILED_SHARE: Final = 0.25  # weight of a failed run among those with similar requests
_CLEAR: Final = 10.0  # log-weight below which a run no longer counts
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD: Final = re.compile(r"[a-z0-9]{2,}")
_STEM: Final = 5  # letters of a word that are compared: "refund" is "refunds" and "refunding"
_PLURAL: Final = 4  # letters from which on a final s is taken off
_EVERYWHERE: Final = frozenset({"user"})


class FittedMemory:
    """One snapshot of the call memory with T tools and N calls. Immutable.

    What comes next is learned from successful runs alone; `odds` compare them with the failed ones.

    With the `former` fit of an earlier snapshot of the same memory, only what came since is computed.

    Attributes:
        names: Of the tools, by number.
        place_T: Place of each tool in the order of names.
        numbers: All tools.
        candidates: Tools that successful runs called.
        successes_T, failures_T: How many successful and failed runs called each tool.
        often_T: How often each tool is called in successful runs, smoothed; sums to 1.
        ended_T: How many of the successful runs that were read ended after each tool.
        whole: Whether all calls are here, so that the counts of runs are exact; else they are the least there are.
    """

    def __init__(self, calls: CallMatrix, former: FittedMemory | None = None) -> None:
        self._count(calls, former)
        # The last call of each run: where the run of the next row is another one.
        last_N = np.append(np.diff(calls.run_N) != 0, True)[: len(calls.run_N)]
        ended = calls.next_N[last_N & calls.success_R[calls.run_N]]
        self.ended_T = np.bincount(ended, minlength=self.tools)
        later_N = calls.before_NK[:, 0] != self.start
        known_N = calls.state_N >= 0
        learned_N = known_N & calls.success_R[calls.run_N]
        rows = np.flatnonzero(later_N & learned_N)
        former_ridge: Ridge | None = None
        former_odds: Odds | None = None
        if former is not None:
            former_ridge = former.ridge
            former_odds = former.odds
        self.ridge = Ridge(Inputs(calls), rows, calls.next_N[rows], self.tools, former=former_ridge)
        self._later = _compared_states(calls, rows)
        self._first = _compared_states(calls, np.flatnonzero(~later_N & learned_N))
        runs = spread(np.arange(len(calls.said_RD)), MOST_RUNS)
        self._said_RD = calls.said_RD[runs]
        self._said = _block(self._said_RD)
        self._called_TR = np.ascontiguousarray(calls.calls_RT[runs].T)
        self._counts_R = np.where(calls.success_R[runs], 1.0, FAILED_SHARE).astype(np.float32)
        self.odds = Odds(calls, np.flatnonzero(later_N & known_N), former_odds)
        self.nearest_runs = self._nearest_runs()
        if former is None:
            return
        self._former_trees = former._trees
        # Measured again when memory has grown, not at each snapshot: it takes a second or two.
        if self._newest <= GROWN * former._measured_at:
            self._chance, self._measured_at = former._chance, former._measured_at

    @property
    def _newest(self) -> int:
        """Row number of the newest run."""
        return int(self.calls.arrival_R.max(initial=0))

    def chance(self, fits: Fits) -> HonestChance:
        """How often hints are right: measured when first asked for, in a second or two, and kept beside the fits."""
        from hepm.policy.hybrid.held_out import measure_chance

        if self._chance is None:
            # Several threads may ask at once: `remembered` measures for the first, and reads for the others.
            with self._measuring:
                kept = fits.remembered("chance", lambda: measure_chance(self).to_json())
                self._chance = HonestChance.from_json(kept)
                self._measured_at = self._newest
        return self._chance

    def trees(self, tool: int) -> PlaceTrees | None:
        """The trees over facts after a tool, grown when they are first asked for; None if too few calls are known."""
        if tool not in self._trees:
            former = self._former_trees.get(tool)
            rows = len(self.calls.by_last.get(tool, ()))
            if former is not None and former.rows <= rows <= REGROWN * former.rows:
                self._trees[tool] = former
            elif len(self.calls.run_ids):
                self._trees[tool] = PlaceTrees.grown(self.calls, tool, self.families)
        return self._trees.get(tool)

    def trees_for(self, encoded: EncodedQuery) -> PlaceTrees | None:
        """The trees over facts after the last tool of a query; None without facts to ask."""
        if not encoded.facts:
            return None
        return self.trees(encoded.before[0])

    def shares_of(self, encoded: EncodedQuery) -> Float32Array:
        """How likely each tool is to be called next, shape (T,), by the trees over facts; 1 each where none grow."""
        trees = self.trees_for(encoded)
        if trees is None:
            return np.ones(self.tools, dtype=np.float32)
        return trees.shares(encoded.facts, self.tools)

    @cached_property
    def families(self) -> list[str]:
        """The family of each run."""
        return families_of(self.calls, range(len(self.calls.task_R)))

    def _nearest_runs(self) -> NearestRuns:
        calls = self.calls
        called = np.unique(calls.run_N[calls.success_R[calls.run_N]])
        with_request = [run for run in called.tolist() if words_of(calls.request_R[run])]
        runs = spread(np.array(with_request, dtype=np.intp), MOST_REQUESTS)
        # Calls of a run lie side by side.
        first_R = np.searchsorted(calls.run_N, runs, side="left")
        end_R = np.searchsorted(calls.run_N, runs, side="right")
        calls_R: list[list[int]] = []
        for first, end in zip(first_R, end_R, strict=True):
            calls_R.append(calls.next_N[first:end].tolist())
        chosen: list[int] = runs.tolist()
        requests = [calls.request_R[run] for run in chosen]
        families = [self.families[run] for run in chosen]
        return NearestRuns(calls_R, requests, families, self.tools)

    def _count(self, calls: CallMatrix, former: FittedMemory | None) -> None:
        self.calls = calls
        self.names = calls.names
        self.tools = len(calls.names)
        self.dimensions = calls.states_SD.shape[1]
        self.whole = calls.reached is None
        if former is not None and former.names == calls.names:
            self.number, self.place_T, self.words = former.number, former.place_T, former.words
        else:
            self.number = {name: tool for tool, name in enumerate(calls.names)}
            by_name = sorted(range(self.tools), key=calls.names.__getitem__)
            self.place_T = np.argsort(np.array(by_name, dtype=np.intp))
            self.words = NameWords(calls.names)
        self.start = self.number.get(START, -1)
        if calls.reached is None:
            self.successes_T, self.failures_T = self._counted(former)
            # The first call of a run is no transition between tools: it is counted after START alone.
            later_N = (calls.before_NK[:, 0] != self.start) & calls.success_R[calls.run_N]
            often_T = np.bincount(calls.next_N[later_N], minlength=self.tools)
        else:
            self.successes_T, self.failures_T = calls.reached.successes_T, calls.reached.failures_T
            often_T = calls.reached.later_T
        in_success = self.successes_T > 0
        self.candidates = np.flatnonzero(in_success)
        numbers = np.arange(self.tools)
        self.numbers = numbers[numbers != self.start]
        often_T = often_T + 0.1 * in_success
        self.often_T: Float32Array = (often_T / max(often_T.sum(), 1e-9)).astype(np.float32)
        self.log_often_T = np.log(self.often_T + 1e-9)
        self._most_called = self.candidates[np.argsort(-self.often_T[self.candidates], kind="stable")]
        self._kept = RecentlyUsed[tuple[frozenset[ToolName], int], CallsAfter](MOST_KEPT)
        self._lock = Lock()
        self._trees: dict[int, PlaceTrees | None] = {}
        self._former_trees: Mapping[int, PlaceTrees | None] = {}
        self._chance: HonestChance | None = None
        self._measured_at = 0  # the newest run then
        self._measuring = Lock()

    @classmethod
    def restored(cls, calls: CallMatrix, kept: Mapping[str, Any]) -> FittedMemory:
        """What `to_keep` gave, without reading any call. `calls` has the names and counts of that time, and no call."""
        fitted = cls.__new__(cls)
        fitted._count(calls, None)
        fitted.ended_T = kept["ended_T"]
        fitted.ridge = Ridge.restored(Inputs(calls), kept["ridge_TX"])
        fitted._later = _Compared.of(kept["later_ND"], kept["later_next_N"])
        fitted._first = _Compared.of(kept["first_ND"], kept["first_next_N"])
        fitted._said_RD = kept["said_RD"]
        fitted._said = _block(fitted._said_RD)
        fitted._called_TR = kept["called_TR"]
        fitted._counts_R = kept["counts_R"]
        fitted.nearest_runs = NearestRuns.restored(kept, fitted.tools)
        trees: Mapping[str, Any] = json.loads(kept["trees"].tobytes())
        fitted._trees = {int(tool): PlaceTrees.from_json(of_tool) for tool, of_tool in trees.items()}
        fitted._chance = HonestChance.from_json(json.loads(kept["chance"].tobytes()))
        fitted.odds = Odds.restored(calls, kept)
        return fitted

    def to_keep(self) -> dict[str, NDArray[Any]]:
        """All that a suggestion needs but the calls after a tool, as arrays."""
        from hepm.policy.hybrid.held_out import measure_chance

        if self._chance is None:
            self._chance = measure_chance(self)
            self._measured_at = self._newest
        trees: dict[int, Any] = {}
        for tool in self._prepared:
            trees_after = self.trees(tool)
            if trees_after is not None:
                trees[tool] = trees_after.to_json()
        return {
            **self.nearest_runs.to_keep(),
            "trees": np.frombuffer(json.dumps(trees).encode(), dtype=np.uint8),
            "chance": np.frombuffer(json.dumps(self._chance.to_json()).encode(), dtype=np.uint8),
            "ended_T": self.ended_T,
            "ridge_TX": self.ridge.weights_CX,
            "later_ND": self._later.vectors_ND,
            "later_next_N": self._later.next_N,
            "first_ND": self._first.vectors_ND,
            "first_next_N": self._first.next_N,
            "said_RD": self._said_RD,
            "called_TR": self._called_TR,
            "counts_R": self._counts_R,
            **self.odds.to_keep(),
        }

    def _counted(self, former: FittedMemory | None) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How many successful and failed runs called each tool, shapes (T,)."""
        counted = 0
        if former is not None:
            counted = len(former.calls.success_R)
        called_RT = self.calls.calls_RT[counted:] > 0
        won_R = self.calls.success_R[counted:]
        successes_T = called_RT[won_R].sum(axis=0)
        failures_T = called_RT[~won_R].sum(axis=0)
        if former is not None:
            successes_T[: former.tools] += former.successes_T
            failures_T[: former.tools] += former.failures_T
        return successes_T, failures_T

    def after(self, last: frozenset[ToolName], tool: int) -> CallsAfter:
        """The calls after the tools of a turn, with one of them as the last; those asked for last are kept."""
        with self._lock:
            kept = self._kept.use((last, tool))
        if kept is not None:
            return kept
        # Read without the lock: that may take a tenth of a second, and two threads that read the same find the same.
        calls = self.calls
        if calls.after is not None:  # a large memory: the calls after each tool are in files
            calls = calls.after(last)
        ended = 0
        if tool >= 0:
            ended = int(self.ended_T[tool])
        calls_after = CallsAfter(calls, self.often_T, tool, self.odds.blame, ended=ended, parallel=len(last) > 1)
        with self._lock:
            self._kept.put((last, tool), calls_after, len(calls_after.rows_N))
        return calls_after

    @property
    def _prepared(self) -> list[int]:
        """The tools that are prepared: the start and those that are called most."""
        return [self.start, *self._most_called[:MOST_PREPARED].tolist()]

    def prepare_after(self, on_progress: Callable[[int, int], None] | None = None) -> None:
        """Read the calls after the tools that are called most, and the first calls: a large memory keeps them in files.

        Args:
            on_progress: Called after each tool with how many are done, and of how many.
        """
        if self.whole:
            return
        tools = self._prepared
        for done, tool in enumerate(tools, 1):
            self.after(frozenset([self.names[tool]]), tool)
            if on_progress is not None:
                on_progress(done, len(tools))

    def last_of(self, after: Sequence[ToolName]) -> list[ToolName]:
        """Of calls of one turn, those to take for the last one: they have no order, and each may be it.

        Where runs of the past tell in which order such calls are made, the others are no evidence.
        """
        tools = sorted(set(after))
        if len(tools) < 2:
            return tools
        went_on = [tool for tool in tools if self.trees(self.number.get(tool, -1)) is not None]
        return went_on or tools

    def encode(self, query: Query, last: ToolName) -> EncodedQuery:
        """Translate a query, with `last` of the last turn's tools as the last call. Tools never seen become -1."""
        names = list(query.history)
        if last in names:
            # Its latest call comes last, the others of its turn just before.
            latest = len(names) - 1 - names[::-1].index(last)
            names.append(names.pop(latest))
        summary = query.state or StateSummary()
        return self.encoded(
            [self.number.get(name, -1) for name in names],
            frozenset(query.after),
            flags=flags_of(summary),
            state_D=query.vector,
            said_D=query.said_vector,
            words=words_of(request_of(said_text(summary))),
            summary=summary,
        )

    def encoded(
        self,
        past: Sequence[int],
        last: frozenset[ToolName],
        *,
        flags: int,
        state_D: Float32Array | None,
        said_D: Float32Array | None,
        words: AbstractSet[str],
        summary: StateSummary,
    ) -> EncodedQuery:
        """An agent that made the calls `past`, oldest first, the last of them in a turn with the tools `last`."""
        # The latest ORDER of the start and the calls, the latest first, filled up with -1.
        latest = [self.start, *past][-ORDER:][::-1]
        before = (*latest, *[-1] * (ORDER - len(latest)))
        after = self.after(last, before[0])
        wish_D = cosines_N = likeness_N = vote = None
        again = frozenset[int]()
        if state_D is not None:
            # A state summary of the agent's own takes the place of the user's words.
            wish_D = state_D if summary.own else _with_wish(state_D, said_D)
            cosines_N, likeness_N = after.cosines(wish_D, state_D, self.odds.relevance_D)
            again = frozenset(past[summary.earlier :])
            vote = self.nearest_runs.vote(words, past)
        called = Counter(tool for tool in past if tool >= 0)
        facts = summary.facts
        if facts:
            facts = with_calls(facts, {self.names[tool]: times for tool, times in called.items()})
        if cosines_N is not None and likeness_N is not None:
            known = 0.0
            if vote is not None:
                known = vote.known
            less_N = self._other_answers(after, before[0], facts, known=known)
            cosines_N = cosines_N - less_N
            likeness_N = likeness_N - less_N
        return EncodedQuery(
            before=before,
            called=called,
            distance={tool: len(past) - place for place, tool in enumerate(past) if tool >= 0},
            flags=flags,
            state_D=state_D,
            said_D=said_D,
            summary=summary,
            after=after,
            again=again,
            vote=vote,
            facts=facts,
            wish_D=wish_D,
            cosines_N=cosines_N,
            likeness_N=likeness_N,
        )

    def _other_answers(self, after: CallsAfter, tool: int, facts: Facts, *, known: float) -> Float32Array | np.float32:
        """How much less like this state the compared calls are, since a fact that decides differs: shape (N,)."""
        whole_runs = len(after.calls.learned_N) == len(after.calls.next_N)
        if not facts or not whole_runs or not len(after.compared_N):
            return np.float32(0)
        trees = self.trees(tool)
        if trees is None:
            return np.float32(0)
        trust = trees.trust(known)
        if not trust:
            return np.float32(0)
        if after.leaf_N is None:
            after.leaf_N = trees.leaves(after.calls, after.compared_N)
        return np.float32(OTHER_ANSWER * trust) * (after.leaf_N != trees.leaf(facts))

    def knows(self, tool: ToolName) -> bool:
        """Whether a run went through a tool; numbers of forgotten ones are not given back."""
        return self.knows_number(self.number.get(tool, -1))

    def knows_number(self, tool: int) -> bool:
        """The same of a tool's number; -1 is none."""
        if tool < 0:
            return False
        return tool == self.start or bool(self.successes_T[tool] + self.failures_T[tool])

    def candidates_of(self, encoded: Sequence[EncodedQuery]) -> NDArray[np.intp]:
        """The tools to rank where all are available: those that successful runs called, the likeliest of many."""
        if len(self.candidates) > MOST_CANDIDATES:
            return self.likely(encoded, MOST_CANDIDATES)
        return self.candidates

    def latest_successes(self, tool: int, most: int) -> tuple[str, ...]:
        """Ids of successful runs that called a tool, the latest first."""
        rows = np.flatnonzero(self.calls.success_R & (self.calls.calls_RT[:, tool] > 0))
        ids = self.calls.run_ids
        return tuple(ids[row] for row in rows.tolist()[: -most - 1 : -1])

    def likely(self, encoded: Sequence[EncodedQuery], most: int) -> NDArray[np.intp]:
        """The first candidates: those that followed the last tools, then the most called ones."""
        if len(encoded) > 1:
            return self._likely(np.concatenate([query.after.following_W for query in encoded]), most)
        after = encoded[0].after
        if after.likely is None or len(after.likely) != min(most, len(self.candidates)):
            after.likely = self._likely(after.following_W, most)
        return after.likely

    def _likely(self, following_W: IntArray, most: int) -> NDArray[np.intp]:
        counts_T = np.bincount(following_W, minlength=self.tools)
        following = np.flatnonzero(counts_T)
        first = following[np.lexsort((-self.often_T[following], -counts_T[following]))]
        further = self._most_called[: most + len(first)]
        return np.sort(np.concatenate([first, further[counts_T[further] == 0]])[:most]).astype(np.intp, copy=False)

    def nearest(self, state_D: Float32Array | None, *, first: bool) -> Float32Array:
        """Best cosine of each tool's states, whatever came before them: shape (T,), 0 where there is none.

        States before a run's `first` call are compared with each other alone: users then say what they want, and
        later how they want it.
        """
        best = np.zeros(self.tools, dtype=np.float32)
        latest = self._later
        if first:
            latest = self._first
        if state_D is not None and len(latest.next_N):
            np.maximum.at(best, latest.next_N, latest.block.similarities(state_D))
        return best

    def unlike(self, content_D: Float32Array, state_D: Float32Array) -> bool:
        """Whether a run began with no request like this one: none shares a content word, none is in the same words."""
        blocks = [block for block in (self._first.block, self._said) if len(block)]
        for block in blocks:
            if float(block.similarities(content_D).max()) >= UNLIKE:
                return False
            if float(block.similarities(state_D).max()) >= SAME_WORDS:
                return False
        return bool(blocks)

    def oftener(
        self, said_D: Float32Array | None, tools: NDArray[np.intp], called_C: NDArray[np.uint8]
    ) -> Float32Array:
        """Share of the runs with similar user messages that called each tool more often than `called_C`, shape (C,).

        Runs weigh as in a softmax over cosines, failed ones less; all are equal if the user said nothing.
        """
        if not self._called_TR.size:
            return np.zeros(len(tools), dtype=np.float32)
        oftener_CR = self._called_TR[tools] > called_C[:, None]
        weights_R = self._counts_R
        if said_D is not None:
            logits_R = self._said.similarities(said_D) / TEMPERATURE
            logits_R -= logits_R.max()
            weights_R = weights_R * np.exp(logits_R) * (logits_R > -_CLEAR)
        oftener = np.flatnonzero(oftener_CR)  # a run calls few of the tools
        tool, run = np.divmod(oftener, len(weights_R))
        sums = np.bincount(tool, weights_R[run], minlength=len(tools))
        return (sums / weights_R.sum()).astype(np.float32)


def _with_wish(state_D: Float32Array, said_D: Float32Array | None) -> Float32Array:
    """The state with the user's words counted twice; the product with an equal state stays 1.

    A long tool result is much of a state, and the same whatever the user wants: without this, runs with another wish
    that read the same list would look nearly equal.
    """
    if said_D is None:
        return state_D
    return (state_D + said_D) / np.float32(1 + said_D @ state_D)


@dataclass(frozen=True, slots=True)
class _Compared:
    """States, shape (N, D), and the tools called next."""

    vectors_ND: Float32Array
    next_N: IntArray
    block: StateBlock

    @classmethod
    def of(cls, vectors_ND: Float32Array, next_N: IntArray) -> _Compared:
        return cls(vectors_ND, next_N, _block(vectors_ND))


def spread(rows: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """At most `most` rows: the last ones, and as many that are evenly spread over those before."""
    if len(rows) <= most:
        return rows
    earlier, last = np.split(rows, [len(rows) - most // 2])
    return np.concatenate([earlier[spread_over(len(earlier), most - len(last))], last])


def _compared_states(calls: CallMatrix, rows: NDArray[np.intp]) -> _Compared:
    rows = spread(rows, MOST_STATES)
    return _Compared.of(calls.states_SD[calls.state_N[rows]], calls.next_N[rows])


def _block(vectors_ND: Float32Array) -> StateBlock:
    """Vectors laid out for fast comparison."""
    block = StateBlock()
    block.extend(vectors_ND, [()] * len(vectors_ND), range(len(vectors_ND)))
    return block


@lru_cache(maxsize=512)  # a user's words are asked about at every turn
def stems(text: str) -> frozenset[str]:
    """Stems of the words of a text: cut after five letters, so that "cancelled" meets `cancel_order`."""
    words = set(_WORD.findall(_CAMEL.sub(" ", text).lower())) - _EVERYWHERE
    return frozenset(map(_stem, words))


def _stem(word: str) -> str:
    if word.endswith("s") and _PLURAL <= len(word) <= _STEM:  # "items" is "item", "gas" stays
        return word[:-1]
    return word[:_STEM]


class NameWords:
    """The words of T tool names, and how much of each name a text holds."""

    def __init__(self, names: Sequence[ToolName]) -> None:
        holders: dict[str, list[int]] = defaultdict(list)
        for tool, name in enumerate(names):
            for word in stems(name.removeprefix(USER_SIDE)):
                holders[word].append(tool)
        self._holders = {word: np.array(tools) for word, tools in holders.items()}
        # A word that is in many names says little about any of them.
        self._weight: dict[str, float] = {}
        for word, tools in holders.items():
            self._weight[word] = float(np.log((len(names) + 1) / (len(tools) + 0.5)))
        # A name without words has no share.
        self._total_T = np.maximum(self._sums(set(holders), len(names)), 1e-6)

    def _sums(self, said: AbstractSet[str], size: int) -> Float32Array:
        sums = np.zeros(size, dtype=np.float32)
        for word in sorted(said & self._holders.keys()):  # sums of floats depend on the order
            sums[self._holders[word]] += self._weight[word]
        return sums

    def shares(self, said: AbstractSet[str]) -> Float32Array:
        """Share of each name's words that was said, rare words counting more: shape (T,), in [0, 1]."""
        return np.divide(self._sums(said, len(self._total_T)), self._total_T, dtype=np.float32)
