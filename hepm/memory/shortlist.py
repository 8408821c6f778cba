"""Tool shortlists: which of an agent's many tools to send, one stable list a namespace; and search among the rest.

A list begins with what words, a model's vectors and like runs choose for the first request, and only grows: a prompt
cache keeps what stays the same. Every tool that a recorded run called stays in it. Ours; not in the papers.
"""

from __future__ import annotations

import json
import math
import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from hepm.embed.embedder import HashingEmbedder
from hepm.errors import InputError, StoreUnavailableError
from hepm.graph.delta import SAID_CHARS, words_of
from hepm.graph.tool_life import ToolNames
from hepm.ingest.formats.turns import read_messages
from hepm.ingest.records import decoded_text
from hepm.memory.tool_index import ToolIndex, index_of, listed
from hepm.types import Object, Tool, ToolName, Turn, normal

if TYPE_CHECKING:
    from hepm.graph.mirror.namespace_mirror import NamespaceMirror
    from hepm.memory.memory import Memory

MORE_TOOLS: Final = "more_tools"
"""Name of the tool with which a model reaches the tools that were left out."""
MOST_MISSED: Final = 0.05
"""Share of sessions that need a tool which was left out, from which on a namespace gets whole lists again."""
FAR_TOO_MANY: Final = 0.15
"""The share that this is tested against."""
_GROWS_BY: Final = 3
"""The best tools for a later request, which the list takes up: fewer miss more sessions, more let it grow longer."""
_LEADING: Final = 5  # the best tools, of which it is looked at what runs called before them
_OF_EARLIER: Final = 0.5  # of a tool that runs called before one of these, where that one has 1
_DESCRIBED_CHARS: Final = 500  # of a description, for the model
_READ_CHARS: Final = 100_000  # of a conversation, in which names of tools are looked for
_LATEST: Final = 100  # sessions, by which it is decided whether lists are shortened
_LISTS: Final = 24  # of a namespace: agents with other tools have a list of their own
_REASON_RUNS: Final = "called in recorded runs"

# A name in a text: "get_user.details" and "mcp__files-read", and whatever stands in quotation marks.
_NAME: Final = re.compile(r"[\w./:-]+")
_QUOTED: Final = re.compile(r"[`'\"]([^`'\"\n]{1,128})[`'\"]")
_TELLING: Final = re.compile(r"[\W\d_]|[a-z][A-Z]")  # in a name that is no common word, as "search" is


class FoundTool(NamedTuple):
    """A tool that fits a request.

    Attributes:
        tool: The very object that was given.
        score: To compare tools of one request by.
        reason: Why it fits.
    """

    name: ToolName
    description: str
    tool: object
    score: float
    reason: str


@dataclass(frozen=True, slots=True)
class Shortlist:
    """The tools to send, of all that an agent has.

    Attributes:
        tools: The very objects that were given, in the order in which they were.
        reasons: Why each is kept, by its name.
        left_out: Names of those that are not in the list, which `more_tools` finds.
        tokens, tokens_saved: Of the tools that are sent, and of the others; approximately.
        off: Why those that are not in the list are sent all the same; "" where they are not.
    """

    tools: tuple[object, ...]
    reasons: Mapping[ToolName, str]
    left_out: tuple[ToolName, ...]
    tokens: int
    tokens_saved: int
    off: str = ""


class MissRate(NamedTuple):
    """How many of the latest sessions needed a tool that was not in the list."""

    sessions: int = 0
    missed: int = 0

    @property
    def is_too_high(self) -> bool:
        """Whether more than `MOST_MISSED` of sessions miss one.

        The likelihood of `FAR_TOO_MANY` is 20 times that of `MOST_MISSED`: of lower rates this happens at any of all
        looks with a probability of at most 1 / 20 (Ville's inequality).
        """
        kept = self.sessions - self.missed
        odds = math.log(FAR_TOO_MANY / MOST_MISSED) * self.missed
        return odds + math.log((1 - FAR_TOO_MANY) / (1 - MOST_MISSED)) * kept > math.log(20)

    def __str__(self) -> str:
        return f"{self.missed:,} of {self.sessions:,} sessions needed a tool that is not in the list"


@dataclass(slots=True)
class _List:
    """The stable list of the agents of a namespace that have (about) the same tools.

    Attributes:
        known: Names of all tools that they had.
        kept: Why each tool is in the list, by name.
    """

    known: set[ToolName]
    kept: dict[ToolName, str] = field(default_factory=dict[ToolName, str])


@dataclass(slots=True)
class _Namespace:
    lists: list[_List] = field(default_factory=list[_List])
    missed: deque[bool] = field(default_factory=lambda: deque(maxlen=_LATEST))

    @property
    def rate(self) -> MissRate:
        """Of the sessions that are remembered."""
        return MissRate(len(self.missed), sum(self.missed))

    def list_for(self, names: Sequence[ToolName]) -> _List:
        """The list of agents with these tools: the one that knows most of them, if that is half."""
        best = max(self.lists, key=lambda known: len(known.known.intersection(names)), default=None)
        if best is None or len(best.known.intersection(names)) * 2 < len(names):
            best = _List(set(names))
            self.lists = [*self.lists[1 - _LISTS :], best]
        return best


class Shortlists:
    """The tool shortlists of a memory's namespaces, kept while the process runs. Threads may share it."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._namespaces: dict[str, _Namespace] = {}
        self._lock = Lock()

    def choose(
        self,
        messages: Sequence[object] | str,
        tools: Iterable[object],
        *,
        k: int,
        budget_tokens: int | None,
        tool_choice: object,
        namespace: str,
    ) -> Shortlist:
        """The tools to send (see `Memory.shortlist`)."""
        if k < 1:
            raise InputError(f"k is {k}: ask for at least one tool")
        given = listed(tools)
        index = index_of(given)
        turns = _turns_of(messages)
        with self._lock:
            state = self._of(namespace)
        names = list(dict.fromkeys(filter(None, index.names_N)))
        if len(names) <= k:
            return _shortened(given, index, dict.fromkeys(names, "no more tools than asked for"))
        mirror = self._memory.mirror(namespace)
        found = self._ranked(given, index, _said_in(turns, "user")[:SAID_CHARS], mirror)
        needed = self._needed(index, names, turns, tool_choice, mirror)
        with self._lock:
            known = state.list_for(names)
            new = [name for name in names if name not in known.known]
            if len(new) <= k:
                needed = dict.fromkeys(new, "new") | needed
            known.known.update(names)
            most = _GROWS_BY if known.kept else k
            known.kept = needed | known.kept
            self._grow(known, found, index, most, budget_tokens)
            reasons = {**known.kept, **needed}
            rate = state.rate
        chosen = _shortened(given, index, reasons)
        if rate.is_too_high:
            return replace(chosen, tools=tuple(given), tokens=sum(index.tokens_N), tokens_saved=0, off=f"off: {rate}")
        return chosen

    def _grow(
        self, known: _List, found: Sequence[FoundTool], index: ToolIndex, most: int, budget_tokens: int | None
    ) -> None:
        """Take the best tools for a request up into a list, while its tokens are within the budget."""
        left = math.inf
        tokens = dict(zip(index.names_N, index.tokens_N, strict=True))
        if budget_tokens is not None:
            left = budget_tokens - sum(tokens.get(name, 0) for name in known.kept)
        for one in found[:most]:
            if one.name not in known.kept and tokens[one.name] <= left:
                known.kept[one.name] = one.reason
                left -= tokens[one.name]

    def find(self, query: str, tools: Iterable[object], *, k: int = 10, namespace: str) -> list[FoundTool]:
        """The tools that fit a request, best first, by words, vectors and what runs of like requests called."""
        given = listed(tools)
        return self._ranked(given, index_of(given), query, self._memory.mirror(namespace))[:k]

    def find_known(
        self, query: str, names: Sequence[ToolName] | None, *, k: int = 10, namespace: str
    ) -> list[FoundTool]:
        """The same among the tools that recorded runs had or called, but for retired ones; with `names`, of these."""
        rows = {row.name: row for row in self._memory.store.tools(namespace=namespace) if not row.retired}
        tools: list[Tool] = []
        for name in dict.fromkeys(rows if names is None else names):
            tool = Tool(name)
            if name in rows:
                tool = Tool(name, rows[name].description, decoded_text(rows[name].parameters))
            tools.append(tool)
        return self.find(query, tools, k=k, namespace=namespace)

    def record(self, *, missed: bool, namespace: str) -> None:
        """Count a session with a list, and whether it called a tool that is not in it, found or sent all the same.

        Of the latest 100 sessions of a namespace it is known whether more than `MOST_MISSED` miss a tool: then all
        tools are sent, until a hundred sessions are known of which that is not so.
        """
        with self._lock:
            self._of(namespace).missed.append(missed)

    def off(self) -> dict[str, str]:
        """The namespaces whose sessions get all tools, as too many missed one, with how many that were."""
        off: dict[str, str] = {}
        with self._lock:
            for name, state in self._namespaces.items():
                if state.rate.is_too_high:
                    off[name] = str(state.rate)
        return off

    def _of(self, namespace: str) -> _Namespace:
        return self._namespaces.setdefault(namespace, _Namespace())

    def _ranked(
        self, given: Sequence[object], index: ToolIndex, request: str, mirror: NamespaceMirror
    ) -> list[FoundTool]:
        """The functions that fit a request at all, best first, ties by name."""
        # Vectors of words say nothing that the words do not.
        embedder = None
        if not self._memory.embedder.name.startswith(HashingEmbedder.PREFIX):
            embedder = self._memory.embedder
        scores_N = index.scores(request, embedder).tolist()
        score = {name: value for name, value in zip(index.names_N, scores_N, strict=True) if name}
        requests = self._memory.evidence(mirror.name).latest().requests
        names = ToolNames.of(mirror.marks, (), score)
        by_runs: dict[ToolName, str] = {}

        def add(own: ToolName, amount: float, reason: str) -> None:
            shown = names.shown(own)
            if shown in score:
                if amount > score[shown]:
                    by_runs[shown] = reason
                score[shown] += amount

        for tool, share in requests.called_by_alike(words_of(request[:SAID_CHARS])).items():
            add(tool, share, "called by runs of like requests")
        for leading in sorted(score, key=lambda name: -score[name])[:_LEADING]:
            for tool, share in requests.called_before(names.own(leading)).items():
                add(tool, _OF_EARLIER * share * score[leading], f"runs call it before {leading}")
        found: dict[ToolName, FoundTool] = {}
        for tool, one in zip(index.tools_N, given, strict=True):
            if tool is not None and score[tool.name] > 0:
                reason = by_runs.get(tool.name, "fits the words of a request")
                found[tool.name] = FoundTool(tool.name, tool.description, one, score[tool.name], reason)
        return sorted(found.values(), key=lambda one: (-round(one.score, 6), one.name))

    def _needed(
        self,
        index: ToolIndex,
        names: Sequence[ToolName],
        turns: Sequence[Turn],
        tool_choice: object,
        mirror: NamespaceMirror,
    ) -> dict[ToolName, str]:
        """The tools that must stay, with the reason for each."""
        tool_names = ToolNames.of(mirror.marks, (), names)
        # "execute-tool weather/forecast" is a call of "execute-tool".
        called = {tool.partition(" ")[0] for tool in mirror.called()} | mirror.called()
        by_runs = {name for name in names if tool_names.own(name) in called}
        kept = dict.fromkeys(by_runs, _REASON_RUNS) | self._renamed(index, by_runs, mirror)
        return kept | needed_here(turns, names, tool_choice)

    def _renamed(self, index: ToolIndex, by_runs: set[ToolName], mirror: NamespaceMirror) -> dict[ToolName, str]:
        """Tools that have the description of one that runs called and the agent has no more."""
        gone: dict[str, ToolName] = {}
        offered = set(index.names_N)
        with suppress(StoreUnavailableError):
            rows = self._memory.store.tools(namespace=mirror.name)
            gone = {row.description: row.name for row in rows if row.calls and row.name not in offered}
        renamed: dict[ToolName, str] = {}
        for tool in index.tools_N:
            if tool is not None and tool.description and tool.description in gone and tool.name not in by_runs:
                renamed[tool.name] = f"has the description of {gone[tool.description]}, which runs called"
        return renamed


def needed_here(turns: Sequence[Turn], names: Iterable[ToolName], tool_choice: object) -> dict[ToolName, str]:
    """The tools that a request cannot do without, with the reason for each."""
    called = {normal(call.name) for turn in turns for call in turn.calls}
    named = _names_in(_said_in(turns, "system", "user"))
    # {"type": "function", "function": {"name": "find"}} and all other forms: what stands in it as a text.
    forced = set(_QUOTED.findall(repr(tool_choice)))
    needed: dict[ToolName, str] = {}
    for name in names:
        if name in forced:
            needed[name] = "forced by tool_choice"
        elif name in named:
            needed[name] = "named in this conversation"
        elif normal(name) in called:
            needed[name] = "called in this conversation"
    return needed


def _turns_of(messages: Sequence[object] | str) -> Sequence[Turn]:
    if isinstance(messages, str):
        return [Turn("user", messages)]
    return read_messages(messages)


def _said_in(turns: Sequence[Turn], *roles: str) -> str:
    return "\n".join(turn.text for turn in turns if turn.role in roles)


def _names_in(text: str) -> set[str]:
    """What may be a tool's name in a text: what is no common word, and what stands in quotation marks."""
    text = text[-_READ_CHARS:]
    words = {word.strip("./:-") for word in _NAME.findall(text)}
    return {*filter(_TELLING.search, words), *_QUOTED.findall(text)}


def _shortened(given: Sequence[object], index: ToolIndex, reasons: Mapping[ToolName, str]) -> Shortlist:
    left_out = dict.fromkeys(name for name in index.names_N if name and name not in reasons)
    kept = [place for place, name in enumerate(index.names_N) if name not in left_out]
    tokens = sum(index.tokens_N[place] for place in kept)
    tools = tuple(given[place] for place in kept)
    why = {name: reasons[name] for name in index.names_N if name in reasons}
    return Shortlist(tools, why, tuple(left_out), tokens, sum(index.tokens_N) - tokens)


def more_tools() -> Object:
    """The tool with which a model reaches what was left out, as Chat Completions describe it."""
    about = "Words of what the tool should do, such as 'convert a document to PDF'; empty to list all names."
    function: Object = {
        "name": MORE_TOOLS,
        "description": "Find further tools: this list leaves out tools that are seldom needed. What is found can be "
        "called from the next step on.",
        "parameters": {
            "type": "object",
            "properties": {"query": {"type": "string", "description": about}},
            "required": ["query"],
        },
    }
    return {"type": "function", "function": function}


def described(found: Iterable[FoundTool]) -> str:
    """The tools that were found, for the model: a line of JSON for each."""
    lines: list[str] = []
    for one in found:
        about = {"name": one.name, "description": one.description[:_DESCRIBED_CHARS]}
        lines.append(json.dumps(about, ensure_ascii=False))
    return "\n".join(lines) or "No tool fits these words: try others, or an empty query for all names."
