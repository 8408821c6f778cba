"""The policies of hepm as methods of the evaluation: a real memory is filled with the training runs and asked."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from weakref import WeakKeyDictionary

from hepm.embed import Embedder
from hepm.evals.events import Event, Run
from hepm.evals.methods.method import Hint, Method, Ranking
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
    """Each policy under the name that `hepm suggest --policy` knows it by.

    Made anew for each training set: without floors to rank every tool, with its default floors to hint.
    """
    made: list[tuple[str, str, Callable[[Floors], Policy]]] = [
        ("procedural", "H-EPM's edge weights, c = 1", lambda floors: Procedural(floors=floors)),
        ("procedural-c0", "edge weights without efficiency", lambda floors: Procedural(c=0, floors=floors)),
        ("episodic", "best remembered state on each edge", lambda floors: Episodic(floors=floors)),
        ("adaptive", "episodic where the agent summarised, else weights", lambda floors: Adaptive(floors=floors)),
        ("episodic-else-procedural", "weights where no state is remembered", _EpisodicElseProcedural),
        ("hybrid", "all that memory knows, weighed by shipped weights", lambda floors: Hybrid(floors=floors)),
    ]
    return [Method(name, about, partial(_PolicyPredictor, make)) for name, about, make in made]


class _EpisodicElseProcedural:
    """H-EPM without adaptation (table 4(C)(i)): episodes wherever there are any."""

    def __init__(self, floors: Floors) -> None:
        self._episodic, self._procedural = Episodic(floors=floors), Procedural(floors=floors)

    def suggest(self, mirror: NamespaceMirror, query: Query) -> Suggestions:
        return self._episodic.suggest(mirror, query) or self._procedural.suggest(mirror, query)


class _PolicyPredictor:
    """A policy that is asked about a memory of the training runs, which the policies of one split share."""

    def __init__(self, make: Callable[[Floors], Policy], training: Training) -> None:
        self._ranker, self._adviser = make(_NO_FLOORS), make(Floors())
        if training not in _filled:
            _filled[training] = FilledMemory(training)
        self._filled = _filled[training]

    def rank(self, events: Sequence[Event]) -> list[Ranking]:
        mirror = self._filled.mirror
        return [
            [(found.tool, found.score) for found in self._ranker.suggest(mirror, query)]
            for query in self._filled.queries(events)
        ]

    def hints(self, events: Sequence[Event], k: int) -> list[Hint]:
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


def as_remembered(run: Run) -> Trajectory:
    """The run as memory takes it; where user-side calls are part of the chain they become calls of the agent."""
    if not run.user_side:
        return run.trajectory
    turns: list[Turn] = []
    for turn in run.trajectory.turns:
        if turn.role == "user" and turn.calls:
            calls = tuple(replace(call, name=USER_SIDE + call.name) for call in turn.calls)
            turns.append(Turn("assistant", turn.text, calls))
        else:
            turns.append(turn)
    return replace(run.trajectory, turns=tuple(turns))


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
    for run in (event.run for event in events):
        if run not in by_run:
            known, by_run[run] = AgentState(), []
            for turn in as_remembered(run).turns:
                by_run[run].append(known.state())
                known.add(turn)
    return [by_run[event.run][event.turn] for event in events]
