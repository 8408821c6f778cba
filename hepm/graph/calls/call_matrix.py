"""Calls of labelled runs with what came before each, as arrays: rankers that look further back learn from them."""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from hepm.graph.calls.fact_table import FactTable
from hepm.graph.calls.growing_array import GrowingArray
from hepm.graph.delta import AGENT_SPOKE, FAILED, USER_SPOKE, StatePlace, hints_to, steps_in, words_of
from hepm.graph.rows import Float32Array, RunRow
from hepm.types import START, Facts, ToolName

K = TypeVar("K")
V = TypeVar("V")

_log = logging.getLogger("hepm")

IntArray: TypeAlias = NDArray[np.int32]
BoolArray: TypeAlias = NDArray[np.bool_]

ORDER: Final = 3
"""How many calls back a context reaches."""
IN_TURN: Final = 8
"""Flag of a call that follows another of its own turn; further flags in `hepm.graph.delta`."""
_IN_BETWEEN: Final = USER_SPOKE | AGENT_SPOKE | FAILED
PARTS: Final = 32_767  # of 1, the most that fits into 16 bits with a sign
MAPPED: Final = 16
"""So many calls of a mapped file cost about as much memory as one that is held."""


@dataclass(frozen=True, slots=True)
class Reached:
    """Counts over all runs of the T tools of a memory of which only a part is read.

    Attributes:
        later_T: Successful runs on the edges to a tool, but for the edge from the start.
        successes_T, failures_T: The most successful, and the most failed runs on one edge to it.
    """

    later_T: NDArray[np.int64]
    successes_T: NDArray[np.int64]
    failures_T: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CallMatrix:
    """A snapshot: N calls, R runs, S states with vectors, T tools, D dimensions.

    Of calls after some tools alone, what is of each run (`said_RD`, `calls_RT`, ids, tasks, users, requests) is empty
    and `states_SD` are numbers of `PARTS`: the vectors have a length of 1.

    Attributes:
        before_NK: Tool numbers of the last K calls before each, latest first; -1 before the run's start.
        next_N, run_N: The tool called, and the row of its run.
        position_N: How many calls of the run came before.
        flags_N: What happened since the call before, and what hints had named, in bits.
        state_N: Row of its state in `states_SD`; -1 if the state has no vector (any more).
        said_RD: Vector of the user's words; zero if there are none.
        calls_RT: How often each run called each tool, capped at 255.
        task_R, user_R, request_R: The task of each run, its user, and what that user asked for first; "" where there is
            none.
        arrival_R: Row numbers of the runs in the store, in the order in which they came.
        by_last: Rows of the calls after each tool, ascending; after the one listed last of parallel ones.
        by_turn: Rows of the calls of the turn after one that held each tool, ascending.
        facts: What was learned before calls.
        learned_N: Row of each call in `facts`: what was learned since the turn before; of earlier calls, at their rows.
        reached: Where these are the calls of the latest runs alone, counts over all runs; None if all calls are here.
        after: Reads the calls after some tools where not all are here.
    """

    before_NK: IntArray
    next_N: IntArray
    run_N: IntArray
    position_N: IntArray
    flags_N: IntArray
    state_N: IntArray
    success_R: BoolArray
    said_RD: Float32Array
    calls_RT: NDArray[np.uint8]
    states_SD: NDArray[Any]
    arrival_R: NDArray[np.int64]
    run_ids: Sequence[str]
    task_R: Sequence[str]
    user_R: Sequence[str]
    request_R: Sequence[str]
    names: Sequence[ToolName]
    by_last: dict[int, NDArray[np.intp]]
    by_turn: dict[int, NDArray[np.intp]]
    facts: FactTable
    learned_N: IntArray
    reached: Reached | None = None
    after: Callable[[Collection[ToolName]], CallMatrix] | None = None

    def of_runs(self, kept_R: BoolArray) -> CallMatrix:
        """The calls of some of the runs, as if no other had been read; states and tools keep their numbers."""
        kept_N = kept_R[self.run_N]
        place_N = np.cumsum(kept_N) - 1
        number_R = np.cumsum(kept_R) - 1
        runs = np.flatnonzero(kept_R).tolist()

        def kept(groups: Mapping[int, NDArray[np.intp]]) -> dict[int, NDArray[np.intp]]:
            return {tool: place_N[rows[kept_N[rows]]] for tool, rows in groups.items()}

        def kept_texts(texts_R: Sequence[str]) -> list[str]:
            return [texts_R[run] for run in runs]

        return replace(
            self,
            before_NK=self.before_NK[kept_N],
            next_N=self.next_N[kept_N],
            run_N=number_R[self.run_N[kept_N]].astype(np.int32),
            position_N=self.position_N[kept_N],
            flags_N=self.flags_N[kept_N],
            state_N=self.state_N[kept_N],
            success_R=self.success_R[kept_R],
            said_RD=self.said_RD[kept_R],
            calls_RT=self.calls_RT[kept_R],
            arrival_R=self.arrival_R[kept_R],
            run_ids=kept_texts(self.run_ids),
            task_R=kept_texts(self.task_R),
            user_R=kept_texts(self.user_R),
            request_R=kept_texts(self.request_R),
            by_last=kept(self.by_last),
            by_turn=kept(self.by_turn),
            learned_N=self.learned_N[kept_N],
            reached=None,
            after=None,
        )


def families_of(calls: CallMatrix, runs: Iterable[int]) -> list[str]:
    """The family of each of some runs: its task; where no other run has that, or it has no name, its request's words.

    Names and numbers in a request are not what runs of a kind have in common, and ids may be of one run each.
    """
    runs_of_task = Counter(calls.task_R)
    families: list[str] = []
    for run in runs:
        task = calls.task_R[run]
        words = " ".join(sorted(words_of(calls.request_R[run])))
        if task and (runs_of_task[task] > 1 or not words):
            families.append(task)
        else:
            families.append(words)
    return families


class ToolNumbers(dict[ToolName, int]):
    """Numbers of tools in the order in which they came; safe to use from several threads."""

    def __init__(self, names: Sequence[ToolName] = ()) -> None:
        super().__init__({START: 0})
        self._lock = Lock()
        for name in names:
            _ = self[name]

    def __missing__(self, name: ToolName) -> int:
        with self._lock:
            return self.setdefault(name, len(self))


class RunTransition(NamedTuple):
    """One transition of a run: the tools of both turns in listed order, what happened and was learned in between, and
    its state."""

    sources: tuple[ToolName, ...]
    targets: tuple[ToolName, ...]
    flags: int
    facts: Facts
    place: StatePlace

    def follows(self, tools: Collection[ToolName]) -> bool:
        """Whether one of its calls comes right after a call to one of the tools."""
        return not set(tools).isdisjoint(self.sources + self.targets[:-1])


def steps_of(run: RunRow) -> list[RunTransition]:
    """The transitions of a run; none if they cannot be read."""
    try:
        return [RunTransition(*step) for step in steps_in(run.sequence, success=run.success)]
    except (TypeError, ValueError):
        _log.warning("the steps of the run %r cannot be read and are left out: `hepm doctor --repair`", run.id)
        return []


class RecentlyUsed(OrderedDict[K, V]):
    """Values by key; those not used for longest go when together they hold more than `most` rows."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most
        self._rows: dict[K, int] = {}
        self._total = 0

    def put(self, key: K, value: V, rows: int) -> None:
        """Keep a value that holds `rows` rows."""
        self._total += rows + 1 - self._rows.get(key, 0)
        self[key], self._rows[key] = value, rows + 1
        self.move_to_end(key)
        while len(self) > 1 and self._total > self._most:
            self.drop(next(iter(self)))

    def use(self, key: K) -> V | None:
        """A value, which counts as used now."""
        value = self.get(key)
        if value is not None:
            self.move_to_end(key)
        return value

    def drop(self, key: K) -> None:
        """Remove a value."""
        del self[key]
        self._total -= self._rows.pop(key)


class CallReader:
    """Reads runs and states as they come and makes snapshots of them; one more run costs O(its calls).

    Tools are numbered as the runs call them: results from equal runs are equal to the last bit.

    Args:
        numbers: Of the tools, shared with other readers.
        only: Read only the calls right after one of these tools; () for all.
        room_SD: A buffer for the vectors of states, such as a mapped file; one in memory grows as they come.
    Attributes:
        read_first: The runs that were read at once, before new ones were added.
        read_to: The newest run of the memory when these were read: its row number, and the hash of its id.
    """

    def __init__(
        self,
        numbers: ToolNumbers | None = None,
        only: Collection[ToolName] = (),
        room_SD: Float32Array | None = None,
    ) -> None:
        self._numbers = ToolNumbers() if numbers is None else numbers
        self._only = only
        self._rows = GrowingArray(ORDER + 5, np.int32)
        self._calls_per_run = GrowingArray(0, np.uint8)
        self._success = GrowingArray(1, np.bool_)
        self._user_vectors = GrowingArray(0, np.float32)
        self._vectors = GrowingArray(0, np.int16 if only else np.float32)
        if room_SD is not None:
            self._vectors = GrowingArray.of(room_SD, rows=0)
        self._by_last: dict[int, GrowingArray] = {}
        self._by_turn: dict[int, GrowingArray] = {}
        self._facts = FactTable()
        self._learned = GrowingArray(1, np.int32)
        self._arrivals = GrowingArray(1, np.int64)
        self._run_ids: list[str] = []
        self._tasks: list[str] = []
        self._users: list[str] = []
        self._requests: list[str] = []
        self._state_rows: dict[StatePlace, int] = {}
        self.read_first = 0
        self.read_to: tuple[int, int] = (0, 0)

    @property
    def runs(self) -> int:
        """How many were read."""
        return len(self._arrivals)

    @property
    def calls(self) -> int:
        """How many of them were read."""
        return len(self._rows)

    @property
    def held(self) -> int:
        """The calls, where their vectors are held; a `MAPPED`th of them where they lie in a mapped file."""
        if self._vectors.held:
            return self.calls
        return self.calls // MAPPED

    @property
    def newest_run(self) -> int:
        """Row number of the run that was read last; 0 if none was."""
        if not len(self._arrivals):
            return 0
        return int(self._arrivals.read()[-1, 0])

    def unknown(self, steps: Sequence[Sequence[RunTransition]]) -> list[StatePlace]:
        """Where the states are that the calls of these runs need and were not read yet."""
        only, stored = self._only, self._state_rows
        places: dict[StatePlace, None] = {}
        for of_run in steps:
            for step in of_run:
                if only and not step.follows(only):
                    continue
                _, key = step.place
                if key and step.place not in stored:  # the key 0: no state is kept
                    places[step.place] = None
        return list(places)

    def read(
        self,
        runs: Sequence[RunRow],
        steps: Sequence[Sequence[RunTransition]],
        places: Sequence[StatePlace],
        vectors_SD: Float32Array,
    ) -> None:
        """Add runs with their steps, and states with their vectors, shape (S, D)."""
        if places:
            self._add_states(places, vectors_SD)
        if not runs:
            return
        first_run, first_row = len(self._arrivals), self.calls
        rows: list[tuple[int, ...]] = []
        after: list[tuple[int, int]] = []  # a tool of the turn before, and a row
        for number, of_run in enumerate(steps, first_run):
            for row, sources in self._rows_of(of_run, number):
                for source in sources:
                    after.append((source, first_row + len(rows)))
                rows.append(row)
        rows_NK = np.array(rows, dtype=np.int32).reshape(-1, ORDER + 5)
        self._rows.extend(rows_NK)
        after_P2 = np.array(after, dtype=np.intp).reshape(-1, 2)
        self._add_groups(self._by_last, rows_NK[:, 0], np.arange(first_row, first_row + len(rows)))
        # Edges of the tool graph count these: of parallel calls, each is followed by the whole next turn.
        self._add_groups(self._by_turn, after_P2[:, 0], after_P2[:, 1])
        if not self._only:
            for of_run in steps:
                self._add_facts(of_run)
            self._add_whole_runs(runs, rows_NK, first_run)
        self._success.extend(np.array([[run.success] for run in runs]))
        self._arrivals.extend(np.array([[run.seq] for run in runs]))
        if not self.read_first:
            self.read_first = self.runs

    def _add_states(self, places: Sequence[StatePlace], vectors_SD: Float32Array) -> None:
        for row, place in enumerate(places, len(self._vectors)):
            self._state_rows[place] = row
        if self._only:
            self._vectors.extend(np.rint(np.clip(vectors_SD, -1, 1) * PARTS))
        else:
            self._vectors.extend(vectors_SD)

    def _add_whole_runs(self, runs: Sequence[RunRow], rows_NK: NDArray[np.int32], first_run: int) -> None:
        """Add what is known of runs of which every call was read."""
        tools = len(self._numbers)
        run_N = rows_NK[:, ORDER + 1] - first_run
        tool_N = rows_NK[:, ORDER]
        called = np.bincount(run_N * tools + tool_N, minlength=len(runs) * tools).reshape(len(runs), tools)
        self._calls_per_run.extend(np.minimum(called, 255))
        self._add_user_vectors(runs)
        for run in runs:
            self._run_ids.append(run.id)
            self._tasks.append(run.task)
            self._users.append(run.user)
            self._requests.append(run.request)

    def _add_facts(self, steps: Sequence[RunTransition]) -> None:
        """Facts are learned from whole runs alone: what was learned earlier in a run counts as well."""
        learned = [self._facts.add(step.facts) for step in steps]
        calls = [len(step.targets) for step in steps]
        self._learned.extend(np.repeat(np.array(learned, dtype=np.int32), calls)[:, None])

    def _add_user_vectors(self, runs: Sequence[RunRow]) -> None:
        vectors: dict[int, Float32Array] = {}
        for row, run in enumerate(runs):
            if run.vector is not None:
                vectors[row] = run.vector
        dimensions = max(map(len, vectors.values()), default=0)
        said_RD = np.zeros((len(runs), dimensions), dtype=np.float32)
        for row, vector in vectors.items():
            said_RD[row] = vector
        self._user_vectors.extend(said_RD)

    def _rows_of(self, steps: Sequence[RunTransition], number: int) -> Iterator[tuple[tuple[int, ...], set[int]]]:
        """A row of each call of a run, and the tools of the turn before it."""
        numbers = self._numbers
        only = {numbers[tool] for tool in self._only}
        history: list[int] = [0]  # tools called so far, START first
        for step in steps:
            state = self._state_rows.get(step.place, -1)
            sources = {numbers[source] for source in step.sources}
            for index, target in enumerate(step.targets):
                tool = numbers[target]
                if not only or history[-1] in only or not only.isdisjoint(sources):
                    if index:
                        flags = IN_TURN | step.flags & FAILED
                    else:
                        flags = step.flags & _IN_BETWEEN
                    flags |= hints_to(step.flags, index)
                    before = (*history[: -ORDER - 1 : -1], -1, -1, -1)[:ORDER]  # the latest first, -1 for none
                    yield (*before, tool, number, len(history) - 1, flags, state), sources
                history.append(tool)

    def _add_groups(self, tables: dict[int, GrowingArray], tools_P: NDArray[Any], rows_P: NDArray[np.intp]) -> None:
        """Add rows to the table of their tool."""
        groups: dict[int, NDArray[np.intp]] = {}
        if self._only:
            for tool in sorted(self._numbers[name] for name in self._only):
                # Also without any row: a tool that is asked for has a table.
                groups[tool] = rows_P[tools_P == tool]
        else:
            order = np.argsort(tools_P, kind="stable")
            tools, starts = np.unique(tools_P[order], return_index=True)
            groups.update(zip(tools.tolist(), np.split(rows_P[order], starts[1:]), strict=False))
        for tool, rows in groups.items():
            tables.setdefault(tool, GrowingArray(1, np.intp)).extend(rows[:, None])

    def to_keep(self, tools: int) -> dict[str, NDArray[Any]]:
        """What was read, as arrays, but for calls to tools whose number is not below `tools`."""
        rows_NK = self._rows.read().copy()
        before_NB = rows_NK[:, :ORDER]
        before_NB[before_NB >= tools] = -1
        known_N = rows_NK[:, ORDER] < tools
        place_N = np.cumsum(known_N) - 1  # of each kept row among the kept ones
        after: list[NDArray[np.int32]] = [np.zeros((0, 2), dtype=np.int32)]
        for tool, table in self._by_turn.items():
            if tool >= tools:
                continue
            row_P = table.read()[:, 0]
            # Of the rows after the tool, those that are kept, by their new places.
            kept_P = place_N[row_P[known_N[row_P]]]
            after.append(np.column_stack([np.full(len(kept_P), tool), kept_P]).astype(np.int32))
        return {
            "rows": rows_NK[known_N],
            "after": np.concatenate(after),
            "success": self._success.read(),
            "vectors": self._vectors.read().T,  # which is faster to compare
            "arrivals": self._arrivals.read(),
            "read": np.array([self.read_first, *self.read_to]),
        }

    @classmethod
    def restored(cls, numbers: ToolNumbers, only: Collection[ToolName], kept: Mapping[str, NDArray[Any]]) -> CallReader:
        """What `to_keep` gave."""
        reader = cls(numbers, only)
        rows_NK, after_P2 = kept["rows"], kept["after"]
        reader._rows = GrowingArray.of(rows_NK)
        reader._add_groups(reader._by_last, rows_NK[:, 0], np.arange(len(rows_NK)))
        reader._add_groups(reader._by_turn, after_P2[:, 0], after_P2[:, 1])
        reader._success = GrowingArray.of(kept["success"])
        reader._vectors = GrowingArray.of(kept["vectors"].T)
        reader._arrivals = GrowingArray.of(kept["arrivals"])
        read_first, newest_seq, newest_hash = map(int, kept["read"])
        reader.read_first = read_first
        reader.read_to = newest_seq, newest_hash
        return reader

    def snapshot(self, dimensions: int) -> CallMatrix:
        """Everything read so far, as arrays; vectors have `dimensions` dimensions if none was read yet."""
        names = tuple(self._numbers)
        self._calls_per_run.extend(np.zeros((0, len(names)), dtype=np.uint8))
        for table in (self._user_vectors, self._vectors):
            table.extend(np.zeros((0, dimensions), dtype=np.float32))
        rows = self._rows.read()
        return CallMatrix(
            rows[:, :ORDER],
            *rows.T[ORDER:],
            success_R=self._success.read()[:, 0],
            said_RD=self._user_vectors.read(),
            calls_RT=self._calls_per_run.read(),
            states_SD=self._vectors.read(),
            arrival_R=self._arrivals.read()[:, 0],
            run_ids=tuple(self._run_ids),
            task_R=tuple(self._tasks),
            user_R=tuple(self._users),
            request_R=tuple(self._requests),
            names=names,
            by_last={tool: table.read()[:, 0] for tool, table in self._by_last.items()},
            by_turn={tool: table.read()[:, 0] for tool, table in self._by_turn.items()},
            facts=self._facts,
            learned_N=self._learned.read()[:, 0],
        )
