"""What runs add to the tool graph, as one value.

A `Delta` is computed from trajectories alone, merged with another in any order, and applied by any store: rebuild,
undo, copy and counting on many machines are the same few lines. Everything in it is an integer or a maximum, so that
the order of merging cannot show, not even in the last bit of a float.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from hepm.graph.weights import inverse_steps
from hepm.types import OWN_STATES, StateSummary, Tool, ToolName, Trajectory, Transition

Edge: TypeAlias = tuple[ToolName, ToolName]


class Move(NamedTuple):
    """The place where equal states merge: the tools before and the tools after, sorted sets, and how the run ended."""

    sources: tuple[ToolName, ...]
    targets: tuple[ToolName, ...]
    success: bool

    @classmethod
    def of(cls, transition: TransitionRow, *, success: bool) -> Move:
        """Where a transition's state belongs."""
        return cls(_sorted_set(transition.sources), _sorted_set(transition.targets), success)


SAID_CHARS: Final = 2000

_IGNORED: Final = b"0123456789 \t\n\r\f\v"
_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(slots=True)
class EdgeCounts:
    """How often a transition was seen; each trajectory counts once per edge.

    Attributes:
        support: N, successful trajectories that hold the transition (H-EPM, 4.2).
        inverse_steps: Sum of 1/n over them, in units of `1 / INVERSE_STEPS_UNIT` (see `hepm.graph.weights`).
        failures: Failed trajectories that hold it.
        unlabelled: Trajectories of unknown outcome that hold it.
    """

    support: int = 0
    inverse_steps: int = 0
    failures: int = 0
    unlabelled: int = 0

    def add(self, other: EdgeCounts, sign: int = 1) -> None:
        """Add another's counts, or take them away with sign -1."""
        self.support += sign * other.support
        self.inverse_steps += sign * other.inverse_steps
        self.failures += sign * other.failures
        self.unlabelled += sign * other.unlabelled


@dataclass(slots=True)
class ToolCounts:
    """How often a tool was called, and how often the record says that the call failed."""

    calls: int = 0
    errors: int = 0
    description: str = ""
    parameters: str = "{}"

    def add(self, other: ToolCounts, sign: int = 1) -> None:
        """Add another's counts; of two descriptions the longer stays, ties by text."""
        self.calls += sign * other.calls
        self.errors += sign * other.errors
        if sign > 0:
            self.description = max(self.description, other.description, key=lambda s: (len(s), s))
            self.parameters = max(self.parameters, other.parameters, key=lambda s: (len(s), s))


@dataclass(slots=True)
class StateSeen:
    """A state summary on a move, with its near-identical repeats merged into it.

    Attributes:
        count: How many transitions held it.
        seen: Latest end of a run that held it, Unix seconds; 0 where runs tell no time.
        trajectory: Id of the run whose wording stands for all of them.
        step: Which transition of that run.
    """

    summary: str
    trajectory: str
    step: int
    seen: float = 0.0
    count: int = 1

    @property
    def rank(self) -> tuple[float, str, int]:
        """Of two wordings the later one stands for both; ties by run and step, so that order cannot show."""
        return self.seen, self.trajectory, self.step

    def add(self, other: StateSeen) -> None:
        """Merge a repeat."""
        self.count += other.count
        if other.rank > self.rank:
            self.summary, self.trajectory, self.step = other.summary, other.trajectory, other.step
            self.seen = other.seen


class TransitionRow(NamedTuple):
    """One transition of a run as a store keeps it.

    Attributes:
        sources, targets: Tools of the earlier and of the later turn, in listed order.
        flags: `USER_SPOKE`, `AGENT_SPOKE`, `FAILED`: what happened in between.
        key: Equal for near-identical summaries; 0 where no state is kept.
        summary: What the agent knew when it issued the later turn, as text.
    """

    sources: tuple[ToolName, ...]
    targets: tuple[ToolName, ...]
    flags: int
    key: int
    summary: str


class Run(NamedTuple):
    """One trajectory as a store keeps it: the record itself, and everything that is counted or looked up by.

    A flat tuple, so that it crosses from one process to another at the cost of its texts.

    Attributes:
        digest: Hash of the content as it was read; tells a repeat from another run with the same id.
        steps: Assistant turns, the rollout length n.
        calls: How often each tool was called, and how often the record says that the call failed.
        called: Every call in listed order, parallel ones flattened.
        tools: What the run's file tells of its tools.
        said: What the user said in the whole run, cut: by it runs are compared as a whole.
        record: The trajectory in hepm's own JSON, from which every count can be made again.
        trusted: False where it is to count for nothing, also where it was stored with a label before.
    """

    id: str
    digest: str
    environment: str
    task: str
    model: str
    user: str
    reward: float | None
    success: bool | None
    steps: int
    ended_at: float | None
    source: str
    calls: Mapping[ToolName, tuple[int, int]]
    called: tuple[ToolName, ...]
    tools: tuple[Tool, ...]
    transitions: tuple[TransitionRow, ...]
    said: str
    record: str
    trusted: bool = True

    @classmethod
    def of(cls, trajectory: Trajectory, transitions: Sequence[Transition], *, digest: str, record: str) -> Run:
        """What a store keeps of a trajectory with these transitions."""
        t = trajectory
        calls: dict[ToolName, tuple[int, int]] = {}
        for call in t.calls():
            made, failed = calls.get(call.name, (0, 0))
            calls[call.name] = made + 1, failed + (call.error is True)
        own_only = OWN_STATES in t.tags
        rows: list[TransitionRow] = []
        for passed in transitions:
            text = passed.state.own if own_only else passed.state.text
            key = 0 if own_only and not text else state_key(text)
            rows.append(TransitionRow(passed.sources, passed.targets, flags_of(passed.state), key, text))
        return cls(
            id=t.id,
            digest=digest,
            environment=t.environment,
            task=t.task,
            model=t.model,
            user=t.user,
            reward=t.outcome.reward,
            success=t.outcome.success,
            steps=t.steps,
            ended_at=t.ended_at,
            source=t.source,
            calls=calls,
            called=tuple([call.name for call in t.calls()]),
            tools=t.tools,
            transitions=tuple(rows),
            said=said_text(transitions[-1].state) if transitions else "",
            record=record,
            trusted=t.trusted,
        )

    @property
    def edges(self) -> set[Edge]:
        """Every pair (a, b) across the sets of two tool-bearing turns that follow each other."""
        return {(a, b) for t in self.transitions for a in t.sources for b in t.targets}


@dataclass(slots=True)
class Delta:
    """What runs add, ready to be merged and applied."""

    edges: defaultdict[Edge, EdgeCounts] = field(default_factory=lambda: defaultdict(EdgeCounts))
    tools: defaultdict[ToolName, ToolCounts] = field(default_factory=lambda: defaultdict(ToolCounts))
    states: defaultdict[Move, dict[int, StateSeen]] = field(default_factory=lambda: defaultdict(dict))
    passages: defaultdict[Edge, set[str]] = field(default_factory=lambda: defaultdict(set))

    @classmethod
    def of(cls, runs: Iterable[Run]) -> Delta:
        """Count runs. O(calls); no text is embedded here."""
        delta = cls()
        told: tuple[Tool, ...] | None = None
        for run in runs:
            delta._count(run)
            # Runs of one file share one list of tools.
            if run.tools is not told:
                told = run.tools
                delta._add_tools(describe(told))
        return delta

    def merge(self, other: Delta) -> Delta:
        """Both together, as a new value; commutative and associative."""
        merged = Delta()
        for part in (self, other):
            merged._add(part)
        return merged

    def _add(self, part: Delta) -> None:
        for edge, counts in part.edges.items():
            self.edges[edge].add(counts)
        self._add_tools(part.tools)
        for edge, runs in part.passages.items():
            self.passages[edge].update(runs)
        for move, states in part.states.items():
            for key, state in states.items():
                self._see(move, key, StateSeen(state.summary, state.trajectory, state.step, state.seen, state.count))

    def _add_tools(self, tools: Mapping[ToolName, ToolCounts]) -> None:
        for name, tool in tools.items():
            self.tools[name].add(tool)

    def _count(self, run: Run) -> None:
        success = run.success
        one = EdgeCounts(
            support=int(success is True),
            inverse_steps=inverse_steps(run.steps) if success else 0,
            failures=int(success is False),
            unlabelled=int(success is None),
        )
        for edge in run.edges:
            self.edges[edge].add(one)
            self.passages[edge].add(run.id)
        for name, (made, failed) in run.calls.items():
            tool = self.tools[name]
            tool.calls += made
            tool.errors += failed
        if success is not None:
            for step, t in enumerate(run.transitions):
                if not t.key:
                    continue
                seen = StateSeen(t.summary, run.id, step, run.ended_at or 0.0)
                self._see(Move.of(t, success=success), t.key, seen)

    def _see(self, move: Move, key: int, state: StateSeen) -> None:
        states = self.states[move]
        if key in states:
            states[key].add(state)
        else:
            states[key] = state


def describe(tools: Iterable[Tool]) -> dict[ToolName, ToolCounts]:
    """Descriptions alone, as tools with no calls yet."""
    return {
        tool.name: ToolCounts(
            description=tool.description,
            parameters=json.dumps(tool.parameters, sort_keys=True, ensure_ascii=False),
        )
        for tool in tools
    }


def _sorted_set(names: tuple[ToolName, ...]) -> tuple[ToolName, ...]:
    return names if len(names) == 1 else tuple(sorted(set(names)))


@lru_cache(maxsize=65_536)  # runs of one task repeat each other's states
def state_key(summary: str) -> int:
    """Equal for near-identical summaries: those that differ in digits, case or white space alone. Signed, 63 bits."""
    plain = summary.lower().encode("utf-8", "replace").translate(None, _IGNORED)
    return int.from_bytes(hashlib.blake2b(plain, digest_size=8).digest(), "big") >> 1


def said_text(state: StateSummary) -> str:
    """All that the user said, as one text; the agent's own summary where nothing else is known."""
    return "\n".join(state.said)[:SAID_CHARS] or state.own


class Step(NamedTuple):
    """One transition of a stored run, as rankers that look further back than one call need it.

    Attributes:
        targets: Tools called, in listed order.
        flags: `USER_SPOKE`, `AGENT_SPOKE`, `FAILED`: what happened since the calls before.
        key: The state's key on its move.
    """

    targets: tuple[ToolName, ...]
    flags: int
    key: int


USER_SPOKE, AGENT_SPOKE, FAILED = 1, 2, 4


def flags_of(state: StateSummary) -> int:
    """What happened since the last call, in bits."""
    return USER_SPOKE * state.user_spoke | AGENT_SPOKE * state.agent_spoke | FAILED * state.failed


def facts_of(run: Run) -> dict[str, object]:
    """What a store tells of a run beside its record: all of it can be read off the record again."""
    return {
        "id": run.id,
        "environment": run.environment,
        "task": run.task,
        "model": run.model,
        "user": run.user,
        "reward": run.reward,
        "success": run.success,
        "steps": run.steps,
        "ended_at": run.ended_at,
        "source": run.source,
        "sequence": sequence_of(run),
        "said": run.said,
    }


def sequence_of(run: Run) -> str:
    """The run's steps as JSON: a list of [targets, flags, key]."""
    return _encode([(t.targets, t.flags, t.key) for t in run.transitions])


def steps_of(sequence: str) -> list[Step]:
    """What `sequence_of` wrote."""
    return [Step(tuple(targets), flags, key) for targets, flags, key in json.loads(sequence)]
