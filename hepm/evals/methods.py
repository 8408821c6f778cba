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
from hepm.graph.delta import said_text
from hepm.graph.mirror.namespace_mirror import NamespaceMirror
from hepm.ingest.transitions import AgentState
from hepm.memory import Memory
from hepm.policy import Adaptive, Episodic, Floors, Hybrid, Policy, Procedural, Query, floors_of
from hepm.types import DEFAULT_NAMESPACE, USER_SIDE, StateSummary, Suggestions, Trajectory, Turn

DEFAULT_METHODS: Final = ("first-order", "second-order+similarity", "adaptive", "episodic", "hybrid")
ABLATIONS: Final = {
    "weight": "episodic",
    "state": "procedural",
    "efficiency": "procedural-c0",
    "adaptation": "episodic-else-procedural",
}
"""What H-EPM's table 4 takes away (A ii, A iii, B ii, C i), and the method that is left, measured as prediction."""
KS: Final = (1, 2, 3)
"""Table 4 D, the ablation "k": rescue and harm of hints of 1, 2 and 3 tools."""
_NO_FLOORS = Floors(support=0, similarity=-1.0, chance=0.0, further=0.0)
_WEIGHED = floors_of("weighed")


def find_methods(names: Sequence[str], *, ablations: Sequence[str] = ()) -> list[Method]:
    """Methods by name, DEFAULT_METHODS when none is named; then those that are left by ablations ("k" is none).

    Raises:
        InputError: a name that no method or no ablation has.
    """
    unknown = [name for name in ablations if name not in ABLATIONS and name != "k"]
    if unknown:
        raise InputError(f"no ablation is called {', '.join(unknown)}. There are: {', '.join(ABLATIONS)}, k.")
    known = {method.name: method for method in all_methods()}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InputError(f"no method is called {', '.join(unknown)}. Known: {', '.join(known)}.")
    left = [ABLATIONS[name] for name in ablations if name != "k"]
    return [known[name] for name in dict.fromkeys([*(names or DEFAULT_METHODS), *left])]


def all_methods() -> list[Method]:
    """Baselines, then hepm's own policies."""
    return [*baselines(), *policies()]


def policies() -> list[Method]:
    """Each policy under its name in `hepm suggest --policy`, and two variants for ablations."""
    made: list[tuple[str, str, Callable[[Floors], Policy]]] = [
        ("procedural", "H-EPM's edge weights, c = 1", lambda floors: Procedural(floors=floors)),
        ("procedural-c0", "edge weights without efficiency", lambda floors: Procedural(c=0, floors=floors)),
        ("episodic", "best remembered state on each edge", lambda floors: Episodic(floors=floors)),
        ("adaptive", "episodic where the agent summarised, else weights", lambda floors: Adaptive(floors=floors)),
        ("episodic-else-procedural", "weights where no state is remembered", EpisodicElseProcedural),
        ("hybrid", "all that memory knows, weighed by shipped weights", lambda floors: Hybrid(floors=floors)),
    ]
    return [Method(name, about, partial(PolicyPredictor, make)) for name, about, make in made]


class PolicyPredictor:
    """A policy on the memory of a training set: without floors to rank every tool, with its default floors to hint."""

    def __init__(self, make: Callable[[Floors], Policy], training: Training) -> None:
        self._make = make
        self._filled = FilledMemory.of(training)

    def _suggest(self, floors: Floors, events: Sequence[Event], k: int) -> Iterator[Suggestions]:
        policy, mirror = self._make(floors), self._filled.mirror
        return (policy.suggest(mirror, replace(query, k=k)) for query in self._filled.queries(events))

    def rank(self, events: Sequence[Event]) -> list[Ranking]:
        answers = self._suggest(_NO_FLOORS, events, 1_000_000)
        return [[(found.tool, found.score) for found in answer] for answer in answers]

    def hints(self, events: Sequence[Event], k: int) -> list[Hint]:
        return [
            Hint(tuple(found.tool for found in answer), frozenset(way.tool for way in answer.warnings))
            for answer in self._suggest(_WEIGHED, events, k)
        ]


class FilledMemory:
    """A throw-away memory on disk with the runs of one training set."""

    def __init__(self, training: Training) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="hepm-eval-")
        self._memory = Memory.open(self._folder.name)
        self._memory.ingest(as_remembered(run) for run in training.runs)
        self._queries: dict[Event, Query] = {}

    @classmethod
    def of(cls, training: Training) -> FilledMemory:
        """The memory that the policies of one split share."""
        if training not in _filled:
            _filled[training] = cls(training)
        return _filled[training]

    @property
    def mirror(self) -> NamespaceMirror:
        return self._memory.mirror(DEFAULT_NAMESPACE)

    @property
    def embedder(self) -> Embedder:
        return self._memory.embedder

    def queries(self, events: Sequence[Event]) -> list[Query]:
        """The query of an agent at each event; made once for all policies."""
        new = [event for event in events if event not in self._queries]
        self._queries.update(zip(new, queries_of(new, self._memory.embedder), strict=True))
        return [self._queries[event] for event in events]

    def __del__(self) -> None:
        self._memory.close()
        self._folder.cleanup()


_filled: WeakKeyDictionary[Training, FilledMemory] = WeakKeyDictionary()


def as_remembered(run: DomainRun) -> Trajectory:
    """The run as memory takes it; where user-side calls are part of the chain they become calls of the agent."""
    turns = list(run.trajectory.turns)
    for at, turn in enumerate(turns):
        if run.user_side and turn.role == "user" and turn.calls:
            calls = tuple(replace(call, name=USER_SIDE + call.name) for call in turn.calls)
            turns[at] = Turn("assistant", turn.text, calls)
    return replace(run.trajectory, turns=tuple(turns)) if run.user_side else run.trajectory


def queries_of(events: Sequence[Event], embedder: Embedder) -> list[Query]:
    """The query of an agent at each event, all vectors made in one go."""
    by_run: dict[DomainRun, list[StateSummary]] = {}
    for run in dict.fromkeys(event.run for event in events):
        known, by_run[run] = AgentState(), []
        for turn in as_remembered(run).turns:
            by_run[run].append(known.state())
            known.add(turn)
    states = [by_run[event.run][event.turn] for event in events]
    texts = [text for state in states for text in (state.text, said_text(state))]
    known = [text for text in dict.fromkeys(texts) if text.strip()]
    vectors = dict(zip(known, embedder.embed(known), strict=True)) if known else {}
    return [
        Query(
            after=(event.last,),
            history=event.previous,
            state=state,
            vector=vectors.get(state.text),
            said_vector=vectors.get(said_text(state)),
        )
        for event, state in zip(events, states, strict=True)
    ]
