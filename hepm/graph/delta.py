"""What runs add to the tool graph, as one value: integers and maxima, so that the order of runs changes nothing."""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from hepm.graph.trials import trial_columns
from hepm.types import (
    LEVEL,
    OWN_STATES,
    RECORDED_BY,
    START,
    SUMMARY_TOOL,
    Facts,
    Object,
    Outcome,
    StateSummary,
    Tool,
    ToolName,
    Trajectory,
    Transition,
)

Edge: TypeAlias = tuple[ToolName, ToolName]
Names: TypeAlias = tuple[ToolName, ...]
"""Of tools."""

SAID_CHARS: Final = 2000  # of a user's words in a run, by which runs are compared
USER_SPOKE, AGENT_SPOKE, FAILED = 1, 2, 4
ADVISED = 32
"""In the flags of a transition: a hint had named a tool since the calls before."""
FIRST_HINTED: Final = 64
"""In the flags of a transition: a hint had named the first target; each further target has the next bit."""

_WORD: Final = re.compile(r"[^\W\d_]{3,}")
_NUMBER: Final = re.compile(r"\w*\d\w*")
_IGNORED: Final = b"0123456789 \t\n\r\f\v"  # bytes that make no difference between two texts of a state
_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class StateMove(NamedTuple):
    """The tools before and after, as sorted sets, and the run's outcome. Equal states of one move are merged."""

    sources: Names
    targets: Names
    success: bool


StatePlace: TypeAlias = tuple[StateMove, int]
"""A move, and the key of a state on it (see `state_key`)."""


@dataclass  # without slots, so that `vars` gives the columns
class ToolCounts:
    """How often a tool was called, and how often the call failed by the record."""

    calls: int = 0
    errors: int = 0


@dataclass
class StateSeen:
    """A state summary on a move, with its near-identical repeats merged into it.

    Attributes:
        trajectory, step: The run whose wording is kept, and which of its transitions.
        seen: Latest end of a run that held it, Unix seconds; 0 if unknown.
    """

    summary: str
    trajectory: str
    step: int
    seen: float = 0.0
    count: int = 1

    def add(self, other: StateSeen) -> None:
        """Merge a repeat: the later wording stays, ties by run and step."""
        self.count += other.count
        if (other.seen, other.trajectory, other.step) > (self.seen, self.trajectory, self.step):
            self.summary, self.trajectory, self.step = other.summary, other.trajectory, other.step
            self.seen = other.seen


class TransitionRow(NamedTuple):
    """One transition of a run as a store keeps it: the tools of both turns in listed order.

    Attributes:
        flags: `USER_SPOKE`, `AGENT_SPOKE`, `FAILED`: what happened in between. And of which targets
            a hint had named the tool, from the bit `FIRST_HINTED` on.
        key: Equal for near-identical summaries; 0 if no state is kept.
        learned: The facts that came since the turn before.
    """

    sources: Names
    targets: Names
    flags: int
    key: int
    summary: str
    learned: Facts


class RunRecord(NamedTuple):
    """One trajectory as a store keeps it: the record itself, and everything that is counted or looked up by.

    A flat tuple, so that it crosses from one process to another at the cost of its texts.

    Attributes:
        digest: Hash of the content as it was read; distinguishes a repeat from another run with the same id.
        steps: Assistant turns, the rollout length n.
        calls: Calls, errors, and calls of which it is recorded whether they failed, by tool; without the agent's own
            summaries, which are no tool's.
        called: Every one of these calls in listed order, parallel ones flattened.
        said: The user's words in the whole run, cut: runs are compared as a whole by them.
        record: The trajectory in hepm's own JSON, from which every count can be recomputed.
        trusted: If False it counts for nothing, also where it was stored with a label before.
        outcome_by: The rule or judge behind its label, which never replaces a given one; "" if it was given.
        given: The label that its record has; `success` is also what its reward means in a store (`graded`).
        token: Name of the token that recorded it at a server; "" if none did.
        level: What the guard drew for its session (see `hepm.memory.guard`); "" if it drew nothing.
        arm, trial: The arm of its session in an experiment, and what is kept to compare arms (see `hepm.graph.trials`).
        refused: The calls that were refused, each with a tool of the turn with calls before it, as JSON; "" for none.
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
    calls: Mapping[ToolName, tuple[int, int, int]]
    called: Names
    tools: tuple[Tool, ...]
    transitions: tuple[TransitionRow, ...]
    said: str
    record: str
    trusted: bool = True
    outcome_by: str = ""
    given: bool | None = None
    token: str = ""
    level: str = ""
    arm: str = ""
    trial: str = ""
    refused: str = ""

    @classmethod
    def of(cls, trajectory: Trajectory, transitions: Sequence[Transition], *, digest: str, record: str) -> RunRecord:
        """The run of a trajectory with these transitions."""
        t = trajectory
        made_calls = [call for call in t.calls() if call.name != SUMMARY_TOOL]
        calls: dict[ToolName, tuple[int, int, int]] = {}
        for call in made_calls:
            made, failed, known = calls.get(call.name, (0, 0, 0))
            calls[call.name] = made + 1, failed + (call.error is True), known + (call.error is not None)
        own_only = OWN_STATES in t.tags  # only the agent's own summaries are kept, not the user's words
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
            called=tuple([call.name for call in made_calls]),
            tools=t.tools,
            transitions=tuple([_transition_row(passed, own_only=own_only) for passed in transitions]),
            said=said_text(transitions[-1].state) if transitions else "",
            record=record,
            trusted=t.trusted,
            outcome_by=t.outcome_by,
            given=t.outcome.success,
            token=t.tags.get(RECORDED_BY, ""),
            level=t.tags.get(LEVEL, ""),
            refused=_refused_in(t) if t.trusted else "",
            **trial_columns(t),
        )

    def graded(self, success_from: float) -> RunRecord:
        """The same with the label that it has in a store in which rewards from `success_from` on are successes."""
        success = Outcome(self.reward, self.given).graded(success_from).success
        if success is self.success:
            return self
        return self._replace(success=success)

    @property
    def edges(self) -> set[Edge]:
        """Every pair (a, b) across the sets of two tool-bearing turns that follow each other."""
        return {
            (source, target) for passed in self.transitions for source in passed.sources for target in passed.targets
        }

    @property
    def columns(self) -> Object:
        """What a store keeps with the record to look runs up by.

        `sequence` is JSON: [[targets, flags, facts, key], ...]; without targets is how the run ended.
        """
        sequence = _encode([(t.targets, t.flags, t.learned, t.key) for t in self.transitions])
        return {name: sequence if name == "sequence" else getattr(self, name) for name in COLUMNS}


def _refused_in(run: Trajectory) -> str:
    """The pairs of the calls that ran last and of those that were refused, each pair once, as JSON; "" for none.

    Without those that memory denied: else it would take its own word for the users'.
    """
    pairs: dict[Edge, None] = {}
    last: Names = (START,)
    for turn in run.turns:
        if turn.role == "user" or not turn.calls:
            continue
        refused = [call.name for call in turn.calls if call.refused and not call.denied]
        for source in last:
            for target in refused:
                pairs[source, target] = None
        last = tuple([call.name for call in turn.ran if call.name != SUMMARY_TOOL]) or last
    return _encode(list(pairs)[:256]) if pairs else ""


def _transition_row(passed: Transition, *, own_only: bool) -> TransitionRow:
    state = passed.state
    text = state.own if own_only else state.text
    key = state_key(text)
    if not passed.targets:
        key, text = 0, ""  # a run that ended went nowhere from this state
    elif own_only and not text:
        key = 0  # the agent gave no summary: no state is kept
    return TransitionRow(passed.sources, passed.targets, flags_of(state) | _hinted(passed), key, text, passed.learned)


def steps_in(sequence: str, *, success: bool) -> Iterator[tuple[Names, Names, int, Facts, StatePlace]]:
    """Each transition of a run, from its column `sequence`: sources, targets, flags, facts, the place of its state."""
    sources: Names = (START,)
    for names, flags, learned, key in json.loads(sequence):
        targets = tuple(names)
        move = StateMove(_sorted_set(sources), _sorted_set(targets), success)
        yield sources, targets, flags, learned, (move, key)
        sources = targets


def key_texts(keys: Iterable[int]) -> list[str]:
    """What the column `sequence` of a run with one of these states holds."""
    return [f",{key}]" for key in keys]


COLUMNS: Final = (
    *RunRecord._fields[: RunRecord._fields.index("calls")],
    "said",
    "token",
    "level",
    "arm",
    "trial",
    "refused",
    "sequence",
)
"""What a store keeps beside the record of a run, in the order of the statement `held_runs`."""


def counted_by(columns: Mapping[str, Any]) -> tuple[object, ...]:
    """What counts, states and vectors of a run follow from, of its columns: all but what is kept to read."""
    moves = [(targets, key) for targets, _, _, key in json.loads(columns["sequence"]) if targets]
    return moves, *[columns[name] for name in ("id", "environment", "task", "success", "steps", "ended_at", "said")]


_Described: TypeAlias = dict[tuple[ToolName, str, str], tuple[float, float]]
_Outcomes: TypeAlias = dict[tuple[ToolName, str], tuple[float, bool]]


@dataclass(slots=True)
class Delta:
    """What runs add, ready to be applied.

    Attributes:
        run_edges: Ids of the runs that took each edge: its counts follow from these in the store.
        described: By tool, description and parameters, as JSON: the first and the last time that runs came with these.
        outcomes: By tool and run: when the run ended, Unix seconds, 0 if unknown; and whether every call to the tool
            failed of which it is recorded. Tools of which nothing is recorded, and distrusted runs, are left out.
    """

    tools: defaultdict[ToolName, ToolCounts] = field(default_factory=lambda: defaultdict(ToolCounts))
    states: dict[StatePlace, StateSeen] = field(default_factory=dict[StatePlace, StateSeen])
    run_edges: defaultdict[Edge, set[str]] = field(default_factory=lambda: defaultdict(set))
    described: _Described = field(default_factory=_Described)
    outcomes: _Outcomes = field(default_factory=_Outcomes)

    @classmethod
    def of(cls, runs: Iterable[RunRecord], *, sign: int = 1) -> Delta:
        """Count runs. O(calls); no text is embedded here. With sign -1 the counts are negative."""
        delta = cls()
        for run in runs:
            delta._count(run, sign)
        return delta

    def describe_tools(self, runs: Iterable[RunRecord], aliases: Mapping[ToolName, ToolName], *, now: float) -> None:
        """Add what runs say of their tools, under the tools' own names.

        Args:
            now: When runs of unknown end described their tools, Unix seconds.
        """
        # Runs of one file share one list of tools: each list is described once.
        lists: dict[int, tuple[tuple[Tool, ...], list[float]]] = {}
        for run in runs:
            _, times = lists.setdefault(id(run.tools), (run.tools, []))
            times.append(now if run.ended_at is None else run.ended_at)
        for tools, times in lists.values():
            names = {tool.name for tool in tools}
            for tool in tools:
                own = aliases.get(tool.name, tool.name)
                # A description under the tool's own name wins over that under an alias.
                if own == tool.name or own not in names:
                    self.describe(Tool(own, tool.description, tool.parameters), min(times), max(times))

    @property
    def touched_tools(self) -> set[ToolName]:
        """The tools whose outgoing edges or outcomes change: what was read of them is out of date."""
        return {source for source, _ in self.run_edges} | {tool for tool, _ in self.outcomes}

    def describe(self, tool: Tool, *times: float) -> None:
        """Add a tool with its description as of some times, Unix seconds; one without a description is listed, too."""
        if tool.name == SUMMARY_TOOL:
            return
        _ = self.tools[tool.name]
        if tool.description or tool.parameters:
            description = tool.name, tool.description, json.dumps(tool.parameters, sort_keys=True, ensure_ascii=False)
            all_times = (*times, *self.described.get(description, ()))
            self.described[description] = min(all_times), max(all_times)

    def tool_rows(self) -> list[Object]:
        """What a store adds to its tools, in this order: counts, then descriptions by time, the shorter first."""
        rows: list[Object] = [
            {"tool": name, **vars(counts), "described_at": 0.0, "description": "", "parameters": "{}"}
            for name, counts in sorted(self.tools.items())
        ]
        descriptions = [
            (time, len(description), len(parameters), description, parameters, name)
            for (name, description, parameters), times in self.described.items()
            for time in set(times)
        ]
        for time, _, _, description, parameters, name in sorted(descriptions):
            rows.append(
                {
                    "tool": name,
                    "calls": 0,
                    "errors": 0,
                    "described_at": time,
                    "description": description,
                    "parameters": parameters,
                }
            )
        return rows

    def _count(self, run: RunRecord, sign: int) -> None:
        edges = run.edges
        for edge in edges:
            self.run_edges[edge].add(run.id)
        targets = {target for _, target in edges}
        for name, (made, failed, known) in run.calls.items():
            tool = self.tools[name]
            tool.calls += sign * made
            tool.errors += sign * failed
            if known and name in targets and run.trusted:
                self.outcomes[name, run.id] = run.ended_at or 0.0, failed == known
        if run.success is not None:
            self._add_states(run, success=run.success)

    def _add_states(self, run: RunRecord, *, success: bool) -> None:
        for step, passed in enumerate(run.transitions):
            if not passed.key:
                continue
            place = StateMove(_sorted_set(passed.sources), _sorted_set(passed.targets), success), passed.key
            state = StateSeen(passed.summary, run.id, step, run.ended_at or 0.0)
            if place in self.states:
                self.states[place].add(state)
            else:
                self.states[place] = state


def _sorted_set(names: Names) -> Names:
    if len(names) == 1:
        return names
    return tuple(sorted(set(names)))


@lru_cache(maxsize=65_536)  # runs of one task repeat each other's states
def state_key(summary: str) -> int:
    """Equal for summaries that differ only in digits, case or white space. Signed, 63 bits."""
    plain = summary.lower().encode("utf-8", "replace").translate(None, _IGNORED)
    return int.from_bytes(hashlib.blake2b(plain, digest_size=8).digest(), "big") >> 1


def said_text(state: StateSummary) -> str:
    """All words of the user, a line for each message; the agent's own summary if nothing else is known."""
    return "\n".join([" ".join(text.split()) for text in state.said])[:SAID_CHARS] or state.own


def request_of(said: str) -> str:
    """What the user asked for first: the first line of `said_text`."""
    # In their beginning: the texts of many runs are looked through.
    return next(filter(str.strip, said[:600].split("\n")), "")


@lru_cache(maxsize=65_536)  # of every run of a memory, and asked for anew with each fit
def words_of(request: str) -> frozenset[str]:
    """The words of a request, in lower case: three or more letters, no digits."""
    return frozenset(_WORD.findall(request.lower()))


@lru_cache(maxsize=65_536)
def numbers_of(request: str) -> frozenset[str]:
    """The numbers and ids of a request, in lower case: what has a digit."""
    return frozenset(_NUMBER.findall(request.lower()))


def flags_of(state: StateSummary) -> int:
    """What happened since the last call, in bits."""
    return USER_SPOKE * state.user_spoke | AGENT_SPOKE * state.agent_spoke | FAILED * state.failed


def _hinted(passed: Transition) -> int:
    """`ADVISED` and the bits of the targets that a hint had named."""
    if not passed.hinted:
        return 0
    flags = ADVISED
    for position, target in enumerate(passed.targets):
        if target in passed.hinted:
            flags |= FIRST_HINTED << position
    return flags
