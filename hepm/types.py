"""hepm's data types, frozen and checked on construction. docs/reference/glossary.md defines the terms."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias, overload

from hepm.errors import InputError
from hepm.text import in_words, percent, tool_in_prompt

ToolName: TypeAlias = str
JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"
Object: TypeAlias = dict[str, Any]
"""A decoded JSON object."""
Objects: TypeAlias = list[Object]
Arguments: TypeAlias = Mapping[str, Any]
"""Arguments of a call, by name."""
Messages: TypeAlias = Sequence[object]
"""A conversation as OpenAI chat messages, as dictionaries or the SDK's objects."""
Role: TypeAlias = Literal["system", "user", "assistant"]
Speak: TypeAlias = Literal["sure", "weighed", "all"]
"""What memory says: only what is right in nine of ten such cases; what is likely, with its chance, for agents that
weigh hints against what they know; or a ranking of all tools, to look at."""
Approval: TypeAlias = Literal["review", "auto"]
"""Whether lessons that a model, an agent or an import wrote wait for a person, or enter prompts at once."""
PolicyName: TypeAlias = Literal["hybrid", "adaptive", "episodic", "procedural"]
"""How next tools are ranked (`hepm.policy.POLICIES`)."""
LastTools: TypeAlias = ToolName | Sequence[ToolName] | None
"""Tool of a last turn, or several that it called in parallel."""
Facts: TypeAlias = "Mapping[str, Mapping[str, float]]"
"""Pieces of what is known that can decide, by where they are from: a tool (its latest result), `RESULTS_OF` a tool (the
words of all), `SAID`, `SAID_LAST` or `USER`. Each has a number: 1 for a value or a word that is there, such as
"status=shipped" and "~refund", else its own."""

START: Final[ToolName] = "<START>"  # the node before the first call (ours; the paper starts after the first call)
END: Final[ToolName] = "<END>"  # what a run did that made no further call; it is no node
SUMMARY_TOOL: Final[ToolName] = "summarize_the_task"
"""The agent's own summary tool (H-EPM, 4.1): never a node, its text becomes the state of the next transition."""
DEFAULT_NAMESPACE: Final = "default"
RESULTS_OF: Final = "results of "
"""Where the words are from that any result of a tool said, where it was called more than once: this and its name."""
PRESENT: Final = "=*"
"""Ends the fact that a text is there, which depends on none of its values."""
DATE: Final = "@"
"""Ends the fact that is a date, in days since `FIRST_DAY`,"""
TIME: Final = "@@"
"""and a date with a time of day."""
CLOCK: Final = "@@@"
"""A time of day alone, as a part of a day."""
FIRST_DAY: Final = 18_262
"""2020-01-01 in days since 1970: with few days before the point, single precision holds half a minute."""
SAID: Final = "<SAID>"
"""Where the facts are from that are words of the user,"""
SAID_LAST: Final = "<SAID LAST>"
"""and those of what they wrote last."""
NOW: Final = "<NOW>"
"""Where the time is from that the system prompt states."""
USER: Final = "<USER>"
"""Where the fact is from that is the user's name ("=ann"). It is not stored with states: the run has it."""

# What starts the line of suggestions in a prompt (H-EPM, appendix E.1), also if it only warns, and the markers around
# recalled text. Readers use them to remove hepm's own hints from runs.
HINT: Final = "Suggested next tools: "
FAILED_HINT: Final = "Ways that failed from here: "
DONE_HINT: Final = "Nothing more to call: "
HINTS: Final = (HINT, FAILED_HINT, DONE_HINT)
BLOCK_START: Final = "<hepm-memory>"
BLOCK_END: Final = "</hepm-memory>"
DENIED: Final = "Denied by hepm's memory: "
"""How the result of a call begins that memory denied. Readers know by it that no user refused the call."""

DISTRUSTED: Final = "hepm:distrusted"  # tag of a run that is stored but never counted; its value: the outcome as JSON
RECORDED_BY: Final = "hepm:token"  # tag with the name of the token that recorded a run at a server
LEVEL: Final = "hepm:level"  # tag with the level of chance that the guard drew for a session
TRIAL: Final = "hepm:trial"  # tag of a session in an experiment: its arm, as JSON (`hepm.graph.trials`)
OWN_STATES: Final = "hepm:own-states"  # tag of a run whose only states are the agent's own summaries
OUTCOME_BY: Final = (
    "hepm:outcome-by"  # tag of a label that was not given: the rule ("tests") or "judge:MODEL" behind it
)
JUDGED_AT: Final = "hepm:judged_at"  # tag with the end of the part that the outcome of a joined run is of
REMOVED: Final = "removed"  # its value if a label was removed by hand: no rule and no judge labels that run again
USER_SIDE: Final = "user:"  # prefix of a tool that the simulated user called, if user-side calls are included

SUCCESS_FROM: Final = 0.7
"""The reward from which on a run is a success, where neither it nor its store says otherwise (PRIME, table 2)."""

_ROUNDING: Final = 1e-6  # rewards may be sums of floats
_DENIED_WITHIN: Final = 300  # characters, of what a client writes before the reason of a hook
# What a call is denied by (benchmarks/LOG.md, "denied calls"): the share of like runs that failed with it, the share
# that succeeded with the alternative, and how many there are of each at least.
_NEARLY_ALL: Final = 0.85
_MOST: Final = 0.8
_FEWEST: Final = 3


@lru_cache(maxsize=4096)
def normal(name: ToolName) -> ToolName:
    """A tool's name in Unicode's composed form (NFC), so that names which look the same are one tool."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def act_in_words(tool: ToolName) -> str:
    """A tool's name; "stopping" of what is no call (`END`)."""
    return "stopping" if tool == END else tool


def _tool_name(name: ToolName) -> ToolName:
    if not isinstance(name, str) or not name.strip():  # pyright: ignore[reportUnnecessaryIsInstance]  # records hold anything
        raise ValueError(f"a tool call without a name: {name!r}")
    if name in (START, END):
        raise ValueError(f"a tool is called {name!r}, which stands for the start or the end of a run")
    return normal(name)


def _to_float(owner: object, name: str, what: str) -> None:
    """Replace a number, also a huge integer or one of numpy's types, with a finite Python float; None stays None."""
    value = getattr(owner, name)
    if value is None:
        return
    try:
        if math.isfinite(value):
            object.__setattr__(owner, name, float(value))
            return
    except OverflowError:
        raise InputError(f"{what} is too large a number") from None
    raise InputError(f"{what} is {value}, not a finite number")


def followed(named: Collection[ToolName], called: Iterable[ToolName]) -> bool | None:
    """Whether an agent that was named tools called one of them next; None if none was named, or it called nothing."""
    tools = set(called) - {SUMMARY_TOOL}
    if not named or not tools:
        return None
    return not tools.isdisjoint(named)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as records describe it; `parameters` is the JSON Schema of its arguments, empty if unknown."""

    name: ToolName
    description: str = ""
    parameters: Mapping[str, JSON] = field(default_factory=dict[str, JSON])

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", _tool_name(self.name))


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One invocation of a tool; result, error and latency are None if not recorded, which differs from False.

    A `refused` call never ran: the user refused, cancelled or interrupted it, or a permission rule or a hook blocked
    it. Its result is what the agent read instead; its error and latency are None.
    """

    name: ToolName
    arguments: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    result: str | None = None
    error: bool | None = None
    latency_s: float | None = None
    refused: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", _tool_name(self.name))
        if self.refused:
            object.__setattr__(self, "error", None)
            object.__setattr__(self, "latency_s", None)
        _to_float(self, "latency_s", "the latency")

    @property
    def denied(self) -> bool:
        """Whether memory itself refused it (see `Session.denial`): that says nothing of users, nor of the tool."""
        return self.refused and DENIED in (self.result or "")[:_DENIED_WITHIN]


class TurnMark(NamedTuple):
    """By what a turn is known again where another file holds it too (see `hepm.ingest.joining`).

    Attributes:
        at: Unix time in seconds.
        scope: What the keys are unique in, such as a trace. "" for a turn of earlier that a later request repeated.
        keys: Of its calls, or the one of its message; ".2" is added to the key of an equal one that came before.
    """

    at: float
    scope: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Turn:
    """One message. The calls of one turn were issued together: a set without order.

    A turn of role "user" has calls only if a simulated user has tools of its own. `reward` is for this turn alone.
    `recalled` are ids of the lessons that the agent searched for in this turn and read after it. `read` is what memory
    or the loop wrote to it after the turn, as it was sent. A `hidden` turn is not in the agent's conversation.
    `hinted` are the tools that hints named since the calls before these: they show memory its own echo. With a `mark`
    it can be joined with what other files hold of its run.
    """

    role: Role
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    reward: float | None = None
    recalled: tuple[str, ...] = ()
    read: str = ""
    hidden: bool = False
    hinted: tuple[ToolName, ...] = ()
    mark: TurnMark | None = field(default=None, compare=False, repr=False)

    @property
    def is_step(self) -> bool:
        """Whether it is a turn of the agent that counts (H-EPM, 4.2): one that its conversation contains."""
        return self.role == "assistant" and not self.hidden

    @property
    def ran(self) -> tuple[ToolCall, ...]:
        """Its calls without those that were refused."""
        return tuple([call for call in self.calls if not call.refused])

    @property
    def refused(self) -> tuple[ToolName, ...]:
        """Names of its calls that were refused."""
        return tuple([call.name for call in self.calls if call.refused])

    @property
    def followed(self) -> bool | None:
        """Whether it did what hints named (see `followed`)."""
        return followed(self.hinted, [call.name for call in self.calls])

    def __post_init__(self) -> None:
        _to_float(self, "reward", "the reward of a turn")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: the recorded reward, no unit, and the label if it was given.

    Without a label the reward decides (`graded`). A run with neither is stored but not counted.
    """

    reward: float | None = None
    success: bool | None = None

    def __post_init__(self) -> None:
        _to_float(self, "reward", "the reward")
        if type(self.success) is not bool and self.success is not None:
            if self.success not in (True, False):  # readers of records handle words such as "no"
                raise ValueError(f"whether the run succeeded is {self.success!r}, neither true nor false")
            object.__setattr__(self, "success", bool(self.success))  # numpy's, say

    def graded(self, success_from: float = SUCCESS_FROM) -> Outcome:
        """The same with a label: as given, else whether the reward reaches `success_from`, a property of the store."""
        if self.success is not None or self.reward is None:
            return self
        return Outcome(self.reward, self.reward >= success_from - _ROUNDING)


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The ordered record of one run on one task, with its outcome.

    Attributes:
        id: The record's own id, or a hash of its content.
        environment: Where the run took place ("retail", a repository); `task` is an id inside it.
        user: Whose run it was, so that it can be forgotten.
        ended_at: Unix time in seconds; None if unknown.
        tags: Other properties that distinguish runs: trial, attack, split.
        source: The file it was read from.
    """

    id: str
    turns: tuple[Turn, ...]
    outcome: Outcome = Outcome()
    environment: str = ""
    task: str = ""
    model: str = ""
    user: str = ""
    ended_at: float | None = None
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    source: str = ""
    tools: tuple[Tool, ...] = ()

    def __post_init__(self) -> None:
        if not self.id:
            raise ValueError("a trajectory needs an id")
        _to_float(self, "ended_at", "the end of the run")

    @property
    def trusted(self) -> bool:
        """Whether hepm may learn from it (see `hepm.ingest.prepare.IngestOptions.trusted`)."""
        return DISTRUSTED not in self.tags

    def graded(self, success_from: float = SUCCESS_FROM) -> Trajectory:
        """The same with the label that its reward stands for, if none was given."""
        outcome = self.outcome.graded(success_from)
        return self if outcome is self.outcome else replace(self, outcome=outcome)

    @property
    def outcome_by(self) -> str:
        """The rule or judge behind its label; `REMOVED`; "" if the label was given, or there was none."""
        return self.tags.get(OUTCOME_BY, "")

    @property
    def steps(self) -> int:
        """Number of the agent's turns: the rollout length n of H-EPM, 4.2."""
        return sum(turn.is_step for turn in self.turns)

    def calls(self, *, user_side: bool = False) -> Iterator[ToolCall]:
        """The agent's calls that ran, in listed order, parallel ones flattened; with `user_side` also the simulated
        user's."""
        for turn in self.turns:
            if user_side or turn.role != "user":
                yield from turn.ran


KEPT_WORDS: Final = 200
"""Words of all results of a tool that stay known, the latest ones: a coding agent calls its shell hundreds of times."""


def with_result(facts: Facts, tool: ToolName, found: Mapping[str, float]) -> Facts:
    """What is known after one more result of a tool: it replaces the latest one, whose words stay known."""
    known = {tool: found}
    if tool in facts:
        words = {name: 1.0 for result in (facts[tool], found) for name in result if "~" in name}
        all_words = {**words, **facts.get(RESULTS_OF + tool, {})}
        if all_words:
            known[RESULTS_OF + tool] = dict(list(all_words.items())[:KEPT_WORDS])
    return {**facts, **known}


@dataclass(frozen=True, slots=True)
class StateSummary:
    """What the agent knew at one point of a run, in a few lines.

    Attributes:
        own: The agent's own summary, if it wrote one; `text` is then only this.
        said: The user's messages so far, oldest first, each shortened.
        result: Last tool result, shortened.
        tools: Names of the last calls, oldest first.
        user_spoke, agent_spoke: Whether they wrote a message since the last call.
        failed: Whether the last result was an error.
        earlier: How many calls the run had made when the user last wrote.
        facts: What is known, taken apart (`Facts`): the latest result of each tool, and all that the user wrote.
    """

    own: str = ""
    said: tuple[str, ...] = ()
    result: str = ""
    tools: tuple[ToolName, ...] = ()
    user_spoke: bool = False
    agent_spoke: bool = False
    failed: bool = False
    earlier: int = 0
    facts: Facts = field(default_factory=dict[str, Mapping[str, float]], compare=False, repr=False)

    @property
    def text(self) -> str:
        """The summary as one text. Its labels are single letters, which lexical embedders ignore."""
        parts = {"U": self.said[-1] if self.said else "", "R": self.result, "T": ", ".join(self.tools)}
        return self.own or "\n".join(f"{name}: {part}" for name, part in parts.items() if part)


@dataclass(frozen=True, slots=True)
class Transition:
    """The calls of one turn, or (START,), followed by those of the next turn with calls: every pair across the sets.

    `step` counts the transitions of a run from 0; `state` is what the agent knew when it issued the later turn, and
    `learned` the part of its facts that came since the turn before. `hinted` are the tools that a hint had named to it.
    """

    sources: tuple[ToolName, ...]
    targets: tuple[ToolName, ...]
    step: int
    state: StateSummary
    learned: Facts = field(default_factory=dict[str, Mapping[str, float]], compare=False, repr=False)
    hinted: tuple[ToolName, ...] = ()


@dataclass(frozen=True, slots=True)
class Recalled:
    """A state of successful runs, found by a search.

    Attributes:
        after, before: Tools of the turn before it, and of the turn after it.
        similarity: Cosine with the text searched for, in [-1, 1].
        count: Number of near-identical states merged into it; `run` is the one whose text is kept.
        succeeded, failed: Runs that went from `after` to `before`; of several tools the most.
    """

    summary: str
    after: tuple[ToolName, ...]
    before: tuple[ToolName, ...]
    similarity: float
    count: int
    run: str
    succeeded: int
    failed: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """Ids of the runs behind a suggestion, and what their agents knew at that point."""

    runs: tuple[str, ...] = ()
    summaries: tuple[str, ...] = ()


@dataclass(eq=False)
class Suggestion:
    """One tool to try next, and why.

    Attributes:
        score: In [0, 1], higher is better. Of the default policy it is a chance: the share of such hints that were
            right in this memory. The meaning of other policies' scores is their own.
        support: Number of successful trajectories behind it.
        failure_share: Share of failed runs among all labelled ones that made this transition, in [0, 1].
        similarity: Cosine of the current state with the most similar stored one; None if no state was compared.
        why: The reason, or what puts it into words: a prompt does not say it.
        measured: Whether the score is such a chance, which a prompt states.
        counted: What a prompt states in a memory too young to measure any: "8 of 8 such runs succeeded"; "" else.
    """

    tool: ToolName
    score: float
    support: int
    failure_share: float
    similarity: float | None
    why: str | Callable[[], str]
    look_up: Callable[[bool], Evidence] = lambda summaries: Evidence()  # with summaries, or runs alone
    measured: bool = False
    counted: str = ""

    @cached_property
    def reason(self) -> str:
        """Why it is suggested, in words."""
        return self.why if isinstance(self.why, str) else self.why()

    @cached_property
    def evidence(self) -> Evidence:
        """Runs and summaries behind it, read from the store on first access."""
        return self.look_up(True)

    @cached_property
    def runs(self) -> tuple[str, ...]:
        """Most recent first; without `summaries`, they are read faster."""
        found = self.__dict__.get("evidence") or self.look_up(False)
        return found.runs

    @property
    def summaries(self) -> tuple[str, ...]:
        """What agents knew when they made this transition."""
        return self.evidence.summaries

    def __repr__(self) -> str:
        return f"Suggestion({self.tool!r}, score={self.score:.3f}, support={self.support}, reason={self.reason!r})"


@dataclass(frozen=True, slots=True)
class FailedWay:
    """A tool to avoid: `failures` of the labelled `runs` that called it from here failed, or that stopped here (`END`).

    `others` is how many like runs succeeded from here with another tool; 0 if that is not known. `instead` is the tool
    with which most of these did, in `worked` of its `tried` runs; "" where none stands out. With `before`, it is one
    that has begun to fail wherever it is called: calls of the last `runs` failed in `failures` of them, and before in
    that share, in [0, 1]. A `refused` one never ran in these runs: users refused it, or a rule or a hook did. One with
    `repeats` failed so often in the present run, with the same arguments. `failed_runs` and `worked_runs` are ids of
    the latest runs behind it and behind `instead`.
    """

    tool: ToolName
    failures: int
    runs: int
    before: float | None = None
    others: int = 0
    instead: ToolName = ""
    worked: int = 0
    tried: int = 0
    refused: bool = False
    repeats: int = 0
    failed_runs: tuple[str, ...] = field(default=(), compare=False, repr=False)
    worked_runs: tuple[str, ...] = field(default=(), compare=False, repr=False)

    @property
    def nearly_always(self) -> bool:
        """Whether it failed in nearly all like runs, and `instead` worked in most: enough to deny a call."""
        if not self.instead or min(self.failures, self.worked) < _FEWEST:
            return False
        return self.failures >= _NEARLY_ALL * self.runs and self.worked >= _MOST * self.tried

    @property
    def counted(self) -> str:
        """Its runs, and those that did better: "6 of 6 like runs here, while refund succeeded in 9 of 9"."""
        if self.instead:
            better = f"{tool_in_prompt(self.instead)} succeeded in {self.worked} of {self.tried}"
            return f"{self.failures} of {self.runs} like runs here, while {better}"
        if self.others:
            return f"{self.failures} of {self.runs} like runs here, while {self.others} with other tools succeeded"
        return f"{self.failures} of {self.runs} runs from here"

    def __str__(self) -> str:
        if self.before is not None:
            return f"fails now, in {self.failures} of its last {self.runs} runs"
        if self.repeats:
            return f"the same call failed {self.repeats} times in this run: change it, or take another way"
        return f"failed in {self.counted}"

    @property
    def refused_often(self) -> bool:
        """Whether users refused it in two runs or more, and in as many as made it."""
        return self.refused and self.failures >= 2 and 2 * self.failures >= self.runs

    @property
    def named(self) -> str:
        """The same with the tool: "close_ticket: failed in 6 of 7 runs from here"."""
        if self.refused:
            return f"users refused {self.act} here ({self.failures} of {self.runs})"
        return f"{self.act}: {self}"

    @property
    def act(self) -> str:
        """The tool as a prompt names it; "stopping" where it warns of making no further call."""
        return tool_in_prompt(act_in_words(self.tool))


@dataclass(frozen=True, slots=True)
class Suggestions(Sequence[Suggestion]):
    """A policy's answer: tools in order, or none and why it `abstained`; and tools to avoid, most failures first.

    Attributes:
        chances: The part of each tool that the default policy compared, of 1 in all; lessons are chosen by them.
        done: If nearly all successful runs like this one ended here, their share; then no tool is named. The line says
            so where nothing is warned of.
    """

    ranked: tuple[Suggestion, ...] = ()
    abstained: str | None = None
    warnings: tuple[FailedWay, ...] = ()
    chances: Mapping[ToolName, float] = field(default_factory=dict[ToolName, float], compare=False, repr=False)
    done: float = 0.0

    def prompt(self) -> str:
        """The line for a system prompt (H-EPM, appendix E.1), with unusual names quoted; empty without an opinion.

        Such as "Suggested next tools: refund; close_ticket: failed in 6 of 6 like runs here, while refund succeeded in
        9 of 9". Of a tool that is suggested all the same, the warning stands in brackets behind it.
        """
        if self.ranked:
            failed = {way.tool: way for way in self.warnings}
            tools: list[str] = []
            for suggestion in self.ranked:
                way = failed.pop(suggestion.tool, None)
                stated = in_words(suggestion.score) if suggestion.measured else suggestion.counted
                about = "; ".join(filter(None, (stated, way and str(way))))
                tools.append(tool_in_prompt(suggestion.tool) + (f" ({about})" if about else ""))
            return HINT + ", ".join(tools) + "".join([f"; {way.named}" for way in failed.values()])
        if self.done and not self.warnings:
            return f"{DONE_HINT}{percent(self.done)} of the successful runs like this one ended here"
        warned: list[str] = []
        for way in self.warnings:
            about = str(way) if way.before is not None or way.repeats else way.counted
            warned.append(way.named if way.refused else f"{way.act} ({about})")
        return FAILED_HINT + ", ".join(warned) if warned else ""

    def without(self, tools: Collection[ToolName], why: str) -> Suggestions:
        """The same without tools, whose warnings stay; `why` it abstains if none is left."""
        left = tuple(one for one in self.ranked if one.tool not in tools)
        return replace(self, ranked=left, abstained=None if left else why, done=0.0)

    @overload
    def __getitem__(self, index: int) -> Suggestion: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Suggestion]: ...
    def __getitem__(self, index: int | slice) -> Suggestion | Sequence[Suggestion]:
        return self.ranked[index]

    def __len__(self) -> int:
        return len(self.ranked)
