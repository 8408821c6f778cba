"""The methods that an evaluation compares: baselines, and hepm's policies on a real memory of the training runs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final
from weakref import WeakKeyDictionary

from hepm.embed import Embedder
from hepm.errors import InputError
from hepm.evals.ablated import EpisodicElseProcedural
from hepm.evals.baselines import Hint, Method, Ranking, Training, baselines
from hepm.evals.domains import DomainRun, Event
from hepm.graph.mirror.namespace_mirror import NamespaceMirror
from hepm.ingest.transitions import AgentState
from hepm.memory import Memory
from hepm.policy import POLICIES, Floors, Policy, Procedural, Query, floors_of, policy_named
from hepm.types import DEFAULT_NAMESPACE, StateSummary, Suggestions

DEFAULT_METHODS: Final = ("first-order", "second-order+similarity", "adaptive", "episodic", "hybrid")
_EVERY_TOOL: Final = 1_000_000  # a k above any number of tools
# -1 is the lowest cosine.
_NO_FLOORS = Floors(support=0, similarity=-1.0, chance=0.0, further=0.0)
_WEIGHED = floors_of("weighed")


def find_methods(names: Sequence[str]) -> list[Method]:
    """Methods by name, DEFAULT_METHODS when none is named; InputError for an unknown one."""
    known = {method.name: method for method in all_methods()}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InputError(f"no method is called {', '.join(unknown)}. Known: {', '.join(known)}.")
    return [known[name] for name in dict.fromkeys(names or DEFAULT_METHODS)]


def all_methods() -> list[Method]:
    """Baselines, then hepm's own policies."""
    return [*baselines(), *policies()]


def policies() -> list[Method]:
    """Each policy under its name in `hepm suggest --policy`, and two that H-EPM takes apart (table 4, B ii and C i)."""
    methods: list[Method] = []
    for name, about in POLICIES.items():
        methods.append(Method(name, about, partial(PolicyPredictor, partial(policy_named, name))))
    without_efficiency = partial(PolicyPredictor, lambda floors: Procedural(c=0, floors=floors))
    states_first = partial(PolicyPredictor, EpisodicElseProcedural)
    return [
        *methods,
        Method("procedural-c0", "edge weights without efficiency", without_efficiency),
        Method("episodic-else-procedural", "weights where no state is remembered", states_first),
    ]


class PolicyPredictor:
    """A policy on the memory of a training set: without floors to rank every tool, with its default floors to hint."""

    def __init__(self, make: Callable[[Floors], Policy], training: Training) -> None:
        self._make = make
        self._filled = FilledMemory.of(training)

    def _suggest(self, floors: Floors, events: Sequence[Event], k: int) -> Iterator[Suggestions]:
        policy = self._make(floors)
        mirror = self._filled.mirror
        for query in self._filled.queries(events):
            yield policy.suggest(mirror, replace(query, k=k))

    def rank(self, events: Sequence[Event]) -> list[Ranking]:
        """Every tool that the policy gives a score, however low."""
        rankings: list[Ranking] = []
        for suggestions in self._suggest(_NO_FLOORS, events, _EVERY_TOOL):
            rankings.append([(suggestion.tool, suggestion.score) for suggestion in suggestions])
        return rankings

    def hints(self, events: Sequence[Event], k: int) -> list[Hint]:
        """What an agent would be shown at each event."""
        hints: list[Hint] = []
        for suggestions in self._suggest(_WEIGHED, events, k):
            tools = tuple(suggestion.tool for suggestion in suggestions)
            hints.append(Hint(tools, frozenset(warning.tool for warning in suggestions.warnings)))
        return hints


class FilledMemory:
    """A throw-away memory on disk with the runs of one training set."""

    def __init__(self, training: Training) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="hepm-eval-")
        self._memory = Memory.open(self._folder.name)
        # At once, not by sessions: nothing here is asked meanwhile.
        self._memory.ingest(run.trajectory for run in training.runs)
        self._queries: dict[Event, Query] = {}

    @classmethod
    def of(cls, training: Training) -> FilledMemory:
        """The memory that the policies of one split share."""
        if training not in _filled:
            _filled[training] = cls(training)
        return _filled[training]

    @property
    def mirror(self) -> NamespaceMirror:
        """The tool graph that policies read."""
        return self._memory.mirror(DEFAULT_NAMESPACE)

    @property
    def embedder(self) -> Embedder:
        """The memory's own."""
        return self._memory.embedder

    def queries(self, events: Sequence[Event]) -> list[Query]:
        """The query of an agent at each event; made once for all policies."""
        # Vectors of texts take most of the time: each event has one query for all policies.
        new = [event for event in events if event not in self._queries]
        self._queries.update(zip(new, queries_of(new, self._memory.embedder), strict=True))
        return [self._queries[event] for event in events]

    def __del__(self) -> None:
        # The folder goes last: Windows removes no open file.
        self._memory.close()
        self._folder.cleanup()


# Weak keys: a memory goes with the training set of its split, not at the end of the process.
_filled: WeakKeyDictionary[Training, FilledMemory] = WeakKeyDictionary()


def queries_of(events: Sequence[Event], embedder: Embedder) -> list[Query]:
    """The query of an agent at each event, all vectors made in one go."""
    states_by_run: dict[DomainRun, list[StateSummary]] = {}
    for event in events:
        if event.run not in states_by_run:
            states_by_run[event.run] = _states_before_turns(event.run)
    states = [states_by_run[event.run][event.turn] for event in events]

    queries: list[Query] = []
    vectors = embedder.embed([state.text for state in states])
    for event, state, vector in zip(events, states, vectors, strict=True):
        query = Query(after=(event.last,), history=event.previous, state=state)
        if state.text.strip():
            query = replace(query, vector=vector)
        queries.append(query)
    return queries


def _states_before_turns(run: DomainRun) -> list[StateSummary]:
    """What the agent knew before each turn."""
    known = AgentState()
    states: list[StateSummary] = []
    for turn in run.trajectory.turns:
        states.append(known.state())
        known.add(turn)
    return states
