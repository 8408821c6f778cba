"""Decisions: the turns of labelled runs, with what was known before each, what was called, and how the run ended."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from statistics import fmean
from threading import Lock
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hepm.graph.delta import (
    AGENT_SPOKE,
    FAILED,
    USER_SPOKE,
    flags_of,
    numbers_of,
    request_of,
    said_text,
    steps_in,
    words_of,
)
from hepm.graph.rows import Float32Array, RunRow
from hepm.text import FUNCTION_WORDS
from hepm.types import END, RESULTS_OF, SAID, SAID_LAST, START, USER, Facts, StateSummary, ToolName, with_result

_log = logging.getLogger("hepm")

CALLED: Final = "<CALLED>"
"""Source of the facts that tools were called, each with how often."""
BEFORE: Final = "<BEFORE>"
"""Source of the fact which tool was called before the last one."""
SINCE: Final = "<SINCE>"
"""Source of the facts who wrote something since the last call."""
WAITED: Final = 0.9
"""Share of the calls of a tool in successful runs that a message of the user came before, from which on it waits."""
ENDED: Final = "<ENDED>"
"""Source of the fact that the last call ended in an error; of conditions alone, as only decisions at one place are
compared."""
_ALIKE: Final = 0.12
"""Share of the words of two requests that both have, from which on they may be one. Among runs of τ-bench and τ²-bench
with one task id, it keeps 94 % of the pairs of one customer's together and parts 89 % of the others."""
_WRITERS: Final = {USER_SPOKE: "user", AGENT_SPOKE: "agent"}

BoolArray: TypeAlias = NDArray[np.bool_]
FloatArray: TypeAlias = NDArray[np.float64]
IndexArray: TypeAlias = NDArray[np.intp]
IntArray: TypeAlias = NDArray[np.int32]
Labels: TypeAlias = NDArray[np.integer]
Scores: TypeAlias = Mapping[ToolName, float]


class FactName(NamedTuple):
    """A fact by where it is from (a tool, or a source in angle brackets) and its name there."""

    source: str
    fact: str

    @property
    def presence(self) -> bool:
        """Whether it is there or not, as a value or a word is; else it is a number."""
        return "=" in self.fact or "~" in self.fact


class CallPlace(NamedTuple):
    """The last tool, and whether its call ended in an error: what is learned from good results says nothing then."""

    tool: ToolName
    failed: bool = False


class Segment(NamedTuple):
    """The facts of one result or message: their numbers and values, shapes (F,)."""

    fact_F: IntArray
    value_F: Float32Array


class FactNumbers(dict[FactName, int]):
    """Numbers of facts in the order in which they came; safe to use from several threads."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[FactName] = []
        self._lock = Lock()

    def __missing__(self, name: FactName) -> int:
        with self._lock:
            if name not in self:
                self[name] = len(self.names)
                self.names.append(name)
            return self[name]

    def segment(self, source: str, facts: Mapping[str, float]) -> Segment:
        """The facts of a source as numbers."""
        numbers = [self[FactName(source, fact)] for fact in facts]
        return Segment(np.array(numbers, dtype=np.int32), np.array([*facts.values()], dtype=np.float32))


@dataclass(slots=True, eq=False)
class Decision:
    """One turn of a run with calls.

    Attributes:
        at: How many calls came before.
        tools: What was called; more than one tool if the calls were issued together, `END` where the run ended.
        known: What results and messages had said: the latest result of each tool, and every message.
        flags: Those of its transition: who wrote since the last call, `ADVISED` if a hint came before.
        earlier: How many calls the run had made when the user last wrote.
        next: The decision after it, its end included; None at the end.
        value: What the run still achieved by it, in [0, 1] (see `hepm.evidence.values`).
        missed: By how much the best way known there achieves more.
    """

    run: LabelledRun
    at: int
    place: CallPlace
    tools: tuple[ToolName, ...]
    known: tuple[Segment, ...]
    flags: int
    earlier: int
    value: float
    next: Decision | None = None
    missed: float = 0.0

    @property
    def past(self) -> Sequence[ToolName]:
        """The calls before, oldest first."""
        return self.run.calls[: self.at]

    @property
    def again(self) -> frozenset[ToolName]:
        """Tools that were called since the user last wrote."""
        return frozenset(self.run.calls[self.earlier : self.at])

    def facts(self, names: Sequence[FactName]) -> Facts:
        """What was known before it; `names` are those of the facts by number."""
        facts = facts_of_calls(self.past, self.flags, self.run.user)
        for segment in self.known:
            numbers: list[int] = segment.fact_F.tolist()
            for number, value in zip(numbers, segment.value_F.tolist(), strict=True):
                source, fact = names[number]
                facts.setdefault(source, {})[fact] = value
        return facts


@dataclass(slots=True, eq=False)
class LabelledRun:
    """A run whose outcome is known.

    Attributes:
        seq: Its number in the store, in order of arrival.
        words: Of its request.
        calls: The tools, those of one turn by name.
        end: That it made no further call, as a decision for `END`; None where that is not known.
        family: What it has in common with runs of the same task (see `hepm.evidence.learning.set_cases`).
        case: What counts as one where a new request is asked about (see there).
        request: The text of its request, from which two runs in the same words are told apart by numbers and ids.
    """

    seq: int
    id: str
    won: bool
    environment: str
    task: str
    user: str
    words: frozenset[str]
    calls: tuple[ToolName, ...]
    decisions: list[Decision] = field(default_factory=list[Decision])
    end: Decision | None = None
    family: str = ""
    case: str = ""
    request: str = ""

    @property
    def turns(self) -> list[Decision]:
        """Its decisions, and its end, if that is known."""
        return [*self.decisions, *filter(None, [self.end])]

    @property
    def instance(self) -> str:
        """What counts as one where it is asked whether several runs agree: a task, or a request with its numbers."""
        if self.case == self.family != self.task_key:
            return self.request
        return self.case

    @property
    def met(self) -> frozenset[bytes]:
        """What its messages and its first results said, before its second turn with calls; none without one."""
        if len(self.decisions) < 2:
            return frozenset()
        return frozenset(part.tobytes() for segment in self.decisions[1].known for part in segment)

    @property
    def task_key(self) -> str:
        """Its task, whose id is one inside its environment; "" for none."""
        if self.task and self.environment:
            return f"{self.environment}/{self.task}"
        return self.task


def read_run(row: RunRow, numbers: FactNumbers) -> LabelledRun:
    """A run with its decisions; without any if its steps cannot be read."""
    try:
        steps = list(steps_in(row.sequence, success=row.success))
    except (TypeError, ValueError):
        _log.warning("the steps of the run %r cannot be read and are left out: `hepm doctor --repair`", row.id)
        steps = []
    # The calls of one turn have no order.
    calls = tuple(tool for _, targets, *_ in steps for tool in sorted(targets))
    run = LabelledRun(
        row.seq,
        row.id,
        row.success,
        row.environment,
        row.task,
        row.user,
        words_of(row.request),
        calls,
        request=row.request,
    )
    known: dict[str, Segment] = {}
    results: Facts = {}
    at = earlier = 0
    for turn, (sources, targets, flags, facts, _) in enumerate(steps):
        if flags & USER_SPOKE:
            earlier = at
        for source, of_source in facts.items():
            if source == SAID:
                known[f"{SAID} {turn}"] = numbers.segment(SAID, of_source)  # every message stays known
                known[SAID_LAST] = numbers.segment(SAID_LAST, of_source)
                continue
            results = with_result(results, source, of_source)
            for found in (source, RESULTS_OF + source):
                if found in results:
                    known[found] = numbers.segment(found, results[found])
        # Calls of one turn have no order: the last one by name counts as the last.
        place = CallPlace(max(sources), bool(flags & FAILED))
        # A run that was lost without a word after its last call may have been cut off.
        if not targets and not (row.success or flags & AGENT_SPOKE):
            break
        tools, happened = tuple(sorted(targets)), flags
        if not targets:
            tools, happened = (END,), flags & ~AGENT_SPOKE
        decision = Decision(run, at, place, tools, tuple(known.values()), happened, earlier, float(row.success))
        if run.decisions:
            run.decisions[-1].next = decision
        if not targets:
            run.end = decision
            break
        run.decisions.append(decision)
        at += len(targets)
    return run


def by_family(runs: Iterable[LabelledRun]) -> dict[str, list[LabelledRun]]:
    """Runs by their family; apart, where requests are not alike: two benchmarks may give two tasks one id."""
    families: defaultdict[str, list[LabelledRun]] = defaultdict(list)
    for run in runs:
        families[run.family].append(run)
    alike: dict[str, list[LabelledRun]] = {}
    for family, members in families.items():
        first_of = _first_wordings(members)
        # A run without a request is of any of them, if there are several.
        several = len(set(filter(None, first_of.values()))) > 1
        for run in members:
            name = f"{family}: {' '.join(sorted(first_of[_terms(run)]))}" if several else family
            alike.setdefault(name, []).append(run)
    return alike


def _first_wordings(runs: Iterable[LabelledRun]) -> dict[frozenset[str], frozenset[str]]:
    """Of each wording of requests, the first one that it is like; wordings of most runs come first.

    Others are compared with the first three of a group.
    """
    times = Counter(map(_terms, runs))
    groups: dict[frozenset[str], list[frozenset[str]]] = {}
    first_of: dict[frozenset[str], frozenset[str]] = {}
    for words in sorted(times, key=lambda words: (-times[words], sorted(words))):
        alike = {first: fmean(shared(words, other) for other in group[:3]) for first, group in groups.items()}
        first = max(alike, key=alike.__getitem__, default=words)
        if alike.get(first, 0.0) < _ALIKE:
            first = words
        groups.setdefault(first, []).append(words)
        first_of[words] = first
    return first_of


def _terms(run: LabelledRun) -> frozenset[str]:
    """What requests are compared by: words, and signs of languages that put no spaces between words."""
    return (run.words - FUNCTION_WORDS) | {sign for sign in run.request if sign >= "\u2e80"}


def shared(words: frozenset[str], others: frozenset[str]) -> float:
    """The share of some words and others that is among both, in [0, 1]."""
    return len(words & others) / max(len(words | others), 1)


@dataclass(frozen=True, slots=True)
class Situation:
    """What an agent knows before a call.

    Attributes:
        place: The last tool, and how its call ended.
        past: All calls so far, oldest first.
        facts: What results and messages said, and what was called, by source.
        words, numbers: Of the request; ids are numbers.
        again: Tools that were called since the user last wrote.
        wish: Words of what the user wrote last, which may be another request by now.
    """

    place: CallPlace
    past: Sequence[ToolName]
    facts: Facts
    words: frozenset[str]
    numbers: frozenset[str]
    again: AbstractSet[ToolName]
    wish: frozenset[str]

    @classmethod
    def of(cls, after: Sequence[ToolName], past: Sequence[ToolName], state: StateSummary) -> Situation:
        """The situation of an agent.

        Args:
            after: The tools of its last turn with calls; (START,) before the first.
            past: All calls so far, oldest first, that turn's included.
        """
        # The calls of the last turn have no order.
        earlier = len(past)
        if START not in after:
            earlier = max(earlier - len(after), 0)
        past = [*past[:earlier], *sorted(past[earlier:])]
        facts = {**state.facts, **facts_of_calls(past, flags_of(state))}
        request = request_of(said_text(state))
        words, numbers = words_of(request), numbers_of(request)
        place = CallPlace(max(after), state.failed)
        wish = words
        if state.earlier and state.said:  # what the user wrote before the first call is one request
            wish = words_of(state.said[-1])
        return cls(place, past, facts, words, numbers, frozenset(past[state.earlier :]), wish)


def facts_of_calls(past: Sequence[ToolName], flags: int, user: str = "") -> dict[str, dict[str, float]]:
    """What is known of the calls so far, of who wrote since the last one, and of the user, as facts."""
    before = START
    if len(past) > 1:
        before = past[-2]
    facts = {
        CALLED: {tool: float(times) for tool, times in Counter(past).items()},
        BEFORE: {f"={before}": 1.0},
        SINCE: {f"={writer}": 1.0 for flag, writer in _WRITERS.items() if flags & flag},
    }
    if user:
        facts[USER] = {f"={user}": 1.0}
    return facts
