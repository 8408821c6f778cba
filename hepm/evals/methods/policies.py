"""The policies of hepm as methods of the evaluation: a real memory is filled with the training runs and asked."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

from hepm.embed import Embedder
from hepm.evals.events import Event, Run
from hepm.evals.methods.protocol import Hint, Method, Ranking
from hepm.evals.training import Training
from hepm.graph.delta import said_text
from hepm.graph.namespace import NamespaceMirror
from hepm.ingest.transitions import AgentState
from hepm.memory import Memory
from hepm.policy import Adaptive, Episodic, Floors, Hybrid, Policy, Procedural, Query
from hepm.types import DEFAULT_NAMESPACE, USER_SIDE, StateSummary, Suggestions, Trajectory, Turn

_EVERYTHING = 1_000_000
_NO_FLOORS = Floors(support=0, similarity=-1.0, chance=0.0, further=0.0)


def policies() -> list[Method]:
    """Each policy under the name that `hepm suggest --policy` knows it by."""
    return [
        PolicyMethod("procedural", "H-EPM's edge weights, c = 1", lambda floors: Procedural(floors=floors)),
        PolicyMethod("procedural-c0", "edge weights without efficiency", lambda floors: Procedural(c=0, floors=floors)),
        PolicyMethod("episodic", "best remembered state on each edge", lambda floors: Episodic(floors=floors)),
        PolicyMethod(
            "adaptive", "episodic where the agent summarised, else weights", lambda floors: Adaptive(floors=floors)
        ),
        PolicyMethod("episodic-else-procedural", "weights where no state is remembered", _EpisodicElseProcedural),
        PolicyMethod(
            "hybrid", "all that memory knows, weighed by shipped weights", lambda floors: Hybrid(floors=floors)
        ),
    ]


class _EpisodicElseProcedural:
    """H-EPM without adaptation (table 4(C)(i)): episodes wherever there are any."""

    def __init__(self, floors: Floors) -> None:
        self._episodic, self._procedural = Episodic(floors=floors), Procedural(floors=floors)

    def suggest(self, mirror: NamespaceMirror, query: Query) -> Suggestions:
        return self._episodic.suggest(mirror, query) or self._procedural.suggest(mirror, query)


@dataclass(frozen=True)
class PolicyMethod:
    """A policy, made anew for each training set: without floors to rank every tool, with its default floors to hint."""

    name: str
    about: str
    make: Callable[[Floors], Policy]

    def fit(self, training: Training) -> _Asked:
        """Fill a memory with the training runs; policies of one split share it."""
        return _Asked(self.make(_NO_FLOORS), self.make(Floors()), _memory_of(training))


class _Asked:
    def __init__(self, ranker: Policy, adviser: Policy, filled: FilledMemory) -> None:
        self._ranker, self._adviser, self._filled = ranker, adviser, filled

    def rank(self, events: Sequence[Event]) -> list[Ranking]:
        """As the policy ranks; what it leaves out is a miss."""
        mirror = self._filled.mirror
        return [
            [(found.tool, found.score) for found in self._ranker.suggest(mirror, query)]
            for query in self._filled.queries(events)
        ]

    def hints(self, events: Sequence[Event], k: int) -> list[Hint]:
        """What `suggest` answers in use."""
        mirror = self._filled.mirror
        answers = [self._adviser.suggest(mirror, replace(query, k=k)) for query in self._filled.queries(events)]
        return [
            Hint(tuple(found.tool for found in answer), frozenset(way.tool for way in answer.warnings))
            for answer in answers
        ]


class FilledMemory:
    """A throw-away memory on disk with the runs of one training set."""

    def __init__(self, training: Training) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="hepm-eval-")
        self._memory = Memory.open(self._folder.name)
        self._memory.ingest(as_remembered(run) for run in training.runs)
        self._queries: dict[Event, Query] = {}

    @property
    def mirror(self) -> NamespaceMirror:
        """Its graph."""
        return self._memory.mirror(DEFAULT_NAMESPACE)

    @property
    def embedder(self) -> Embedder:
        """What its states were embedded by."""
        return self._memory.embedder

    def queries(self, events: Sequence[Event]) -> list[Query]:
        """What an agent would ask at each event; made once for all policies."""
        new = [event for event in events if event not in self._queries]
        self._queries.update(zip(new, queries_of(new, self.embedder), strict=True))
        return [self._queries[event] for event in events]

    def __del__(self) -> None:
        self._memory.close()
        self._folder.cleanup()


_filled: WeakKeyDictionary[Training, FilledMemory] = WeakKeyDictionary()


def _memory_of(training: Training) -> FilledMemory:
    if training not in _filled:
        _filled[training] = FilledMemory(training)
    return _filled[training]


def as_remembered(run: Run) -> Trajectory:
    """The run as memory takes it; where user-side calls are part of the chain they become calls of the agent."""
    if not run.user_side:
        return run.trajectory
    turns = tuple(_agents(turn) if turn.role == "user" and turn.calls else turn for turn in run.trajectory.turns)
    return replace(run.trajectory, turns=turns)


def _agents(turn: Turn) -> Turn:
    calls = tuple(replace(call, name=USER_SIDE + call.name) for call in turn.calls)
    return Turn("assistant", turn.text, calls)


def queries_of(events: Sequence[Event], embedder: Embedder) -> list[Query]:
    """What an agent would ask at each event, all vectors made in one go."""
    states = _states_of(events)
    texts = list(dict.fromkeys(text for state in states for text in (state.text, said_text(state)) if text.strip()))
    vectors = dict(zip(texts, embedder.embed(texts), strict=True)) if texts else {}
    return [
        Query(
            after=(event.last,),
            history=event.previous,
            state=state,
            vector=vectors.get(state.text),
            said_vector=vectors.get(said_text(state)),
            k=_EVERYTHING,
        )
        for event, state in zip(events, states, strict=True)
    ]


def _states_of(events: Sequence[Event]) -> list[StateSummary]:
    by_run: dict[Run, list[StateSummary]] = {}
    for event in events:
        if event.run not in by_run:
            by_run[event.run] = list(_all_states(event.run))
    return [by_run[event.run][event.turn] for event in events]


def _all_states(run: Run) -> list[StateSummary]:
    """What is known before each message."""
    now = AgentState()
    states: list[StateSummary] = []
    for turn in as_remembered(run).turns:
        states.append(now.state())
        now.add(turn)
    return states
