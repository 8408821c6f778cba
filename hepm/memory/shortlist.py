"""Tool shortlists: which of an agent's many tools to send, one stable list a namespace; and search among the rest.

A list begins with what words, a model's vectors and like runs choose for the first request, and only grows: a prompt
cache keeps what stays the same. Every tool that a recorded run called stays in it. Ours; not in the papers.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from hepm.embed.embedder import HashingEmbedder
from hepm.errors import InputError, StoreUnavailableError
from hepm.graph.delta import SAID_CHARS, Names, words_of
from hepm.graph.tool_life import ToolNames
from hepm.ingest.formats.turns import read_messages
from hepm.ingest.records import decoded_text
from hepm.memory.tool_index import ToolIndex, index_of, listed
from hepm.types import Messages, Object, Tool, ToolName, Turn, normal

if TYPE_CHECKING:
    from hepm.graph.mirror.namespace_mirror import NamespaceMirror
    from hepm.memory.memory import Memory

MORE_TOOLS: Final = "more_tools"
"""Name of the tool with which a model reaches the tools that were left out."""
MOST_MISSED: Final = 0.05
"""Share of sessions that need a tool which was left out, from which on a namespace gets whole lists again."""
FAR_TOO_MANY: Final = 0.15
"""The share that this is tested against."""

# A name in a text: "get_user.details" and "mcp__files-read", and whatever stands in quotation marks.
_QUOTED: Final = re.compile(r"[`'\"]([^`'\"\n]{1,128})[`'\"]")
_TELLING: Final = re.compile(r"[\W\d_]|[a-z][A-Z]")  # in a name that is no common word, as "search" is


Reasons: TypeAlias = dict[ToolName, str]
"""Why tools are kept, by name."""


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
    left_out: Names
    tokens: int
    tokens_saved: int
    off: str = ""


def misses_too_many(sessions: int, missed: int) -> bool:
    """Whether more than `MOST_MISSED` of sessions need a tool that is not in the list.

    The likelihood of `FAR_TOO_MANY` is 20 times that of `MOST_MISSED`: of lower rates this happens at any of all
    looks with a probability of at most 1 / 20 (Ville's inequality).
    """
    odds = math.log(FAR_TOO_MANY / MOST_MISSED) * missed
    odds += math.log((1 - FAR_TOO_MANY) / (1 - MOST_MISSED)) * (sessions - missed)
    return odds > math.log(20)


class _List:
    """The stable list of a namespace.

    Attributes:
        known: Names of all tools that its agents had.
        kept: Why each tool is in the list, by name.
        missed: Of the latest sessions, whether they needed a tool that is not in it.
    """

    def __init__(self) -> None:
        self.known = set[ToolName]()
        self.kept = Reasons()
        self.missed = deque[bool](maxlen=100)

    @property
    def off(self) -> str:
        """Why all tools are sent; "" where they are not."""
        sessions = len(self.missed)
        missed = sum(self.missed)
        if not misses_too_many(sessions, missed):
            return ""
        return f"{missed:,} of {sessions:,} sessions needed a tool that is not in the list"


class Shortlists:
    """The tool shortlists of a memory's namespaces, kept while the process runs. Threads may share it."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._lists: defaultdict[str, _List] = defaultdict(_List)
        self._lock = Lock()

    def choose(
        self,
        messages: Messages | str,
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
        turns = [Turn("user", messages)] if isinstance(messages, str) else read_messages(messages)
        tokens = dict(zip(index.names_N, index.tokens_N, strict=True))
        tokens.pop("", None)  # what is no function
        if len(tokens) <= k:
            return _shortened(given, index, dict.fromkeys(tokens, "no more tools than asked for"))
        mirror = self._memory.mirror(namespace)
        found = self._ranked(given, index, _said_in(turns, "user")[:SAID_CHARS], mirror)
        needed = self._called(index, mirror) | needed_here(turns, tokens, tool_choice)
        with self._lock:
            own = self._lists[namespace]
            new = [name for name in tokens if name not in own.known]
            if len(new) <= k:
                needed = dict.fromkeys(new, "new") | needed
            own.known.update(tokens)
            # A first request fills the list. Later ones add three: fewer miss more sessions, more let it grow longer.
            most = k if own.kept.keys().isdisjoint(tokens) else 3
            own.kept = needed | own.kept
            left = math.inf
            if budget_tokens is not None:
                left = budget_tokens - sum(tokens.get(name, 0) for name in own.kept)
            for one in found[:most]:
                if one.name not in own.kept and tokens[one.name] <= left:
                    own.kept[one.name] = one.reason
                    left -= tokens[one.name]
            chosen = _shortened(given, index, own.kept | needed)
            off = own.off
        if off:
            return replace(chosen, tools=tuple(given), tokens=sum(index.tokens_N), tokens_saved=0, off=f"off: {off}")
        return chosen

    def find(self, query: str, tools: Iterable[object], *, k: int = 10, namespace: str) -> list[FoundTool]:
        """The tools that fit a request, best first, by words, vectors and what runs of like requests called."""
        given = listed(tools)
        return self._ranked(given, index_of(given), query, self._memory.mirror(namespace))[:k]

    def find_known(
        self, query: str, names: Sequence[ToolName] | None, *, k: int = 10, namespace: str
    ) -> list[FoundTool]:
        """The same among the tools that recorded runs had or called, but for retired ones; with `names`, of these."""
        tools: dict[ToolName, Tool] = {}
        for row in self._memory.store.tools(namespace=namespace):
            if not row.retired:
                tools[row.name] = Tool(row.name, row.description, decoded_text(row.parameters))
        if names is not None:
            tools = {name: tools.get(name) or Tool(name) for name in names}
        return self.find(query, tools.values(), k=k, namespace=namespace)

    def record(self, *, missed: bool, namespace: str) -> None:
        """Count a session with a list, and whether it called a tool that is not in it, found or sent all the same.

        Of the latest 100 sessions of a namespace it is known whether more than `MOST_MISSED` miss a tool: then all
        tools are sent, until a hundred sessions are known of which that is not so.
        """
        with self._lock:
            self._lists[namespace].missed.append(missed)

    def off(self) -> dict[str, str]:
        """The namespaces whose sessions get all tools, as too many missed one, with how many that were."""
        with self._lock:
            return {name: own.off for name, own in self._lists.items() if own.off}

    def _ranked(
        self, given: Sequence[object], index: ToolIndex, request: str, mirror: NamespaceMirror
    ) -> list[FoundTool]:
        """The functions that fit a request at all, best first, ties by name."""
        # Vectors of words say nothing that the words do not.
        embedder = None
        if not self._memory.embedder.name.startswith(HashingEmbedder.PREFIX):
            embedder = self._memory.embedder
        score = dict(zip(index.names_N, index.scores(request, embedder).tolist(), strict=True))
        requests = self._memory.evidence(mirror.name).latest().requests
        names = ToolNames.of(mirror.marks, (), score)
        by_runs: Reasons = {}

        def add(own: ToolName, amount: float, reason: str) -> None:
            shown = names.shown(own)
            if shown in score:
                if amount > score[shown]:
                    by_runs[shown] = reason
                score[shown] += amount

        for tool, share in requests.called_by_alike(words_of(request[:SAID_CHARS])).items():
            add(tool, share, "called by runs of like requests")
        # What runs called before one of the five best tools gets half of that one's score.
        for leading in sorted(score, key=lambda name: -score[name])[:5]:
            for tool, share in requests.called_before(names.own(leading)).items():
                add(tool, 0.5 * share * score[leading], f"runs call it before {leading}")
        found: dict[ToolName, FoundTool] = {}
        for tool, one in zip(index.tools_N, given, strict=True):
            if tool is not None and score[tool.name] > 0:
                reason = by_runs.get(tool.name, "fits the words of a request")
                found[tool.name] = FoundTool(tool.name, tool.description, one, score[tool.name], reason)
        return sorted(found.values(), key=lambda one: (-round(one.score, 6), one.name))

    def _called(self, index: ToolIndex, mirror: NamespaceMirror) -> Reasons:
        """The tools that recorded runs called, also by another name, with the reason for each."""
        names = ToolNames.of(mirror.marks, (), index.names_N)
        # "execute-tool weather/forecast" is a call of "execute-tool", too.
        called = {*mirror.called(), *[tool.partition(" ")[0] for tool in mirror.called()]}
        # Tools that runs called and the agent has no more, by their descriptions.
        gone: dict[str, ToolName] = {}
        with suppress(StoreUnavailableError):
            for row in self._memory.store.tools(namespace=mirror.name):
                if row.calls and row.description and row.name not in index.names_N:
                    gone[row.description] = row.name
        kept: Reasons = {}
        for tool in index.tools_N:
            if tool is None:
                continue
            if names.own(tool.name) in called:
                kept[tool.name] = "called in recorded runs"
            elif tool.description in gone:
                kept[tool.name] = f"has the description of {gone[tool.description]}, which runs called"
        return kept


def needed_here(turns: Sequence[Turn], names: Iterable[ToolName], tool_choice: object) -> Reasons:
    """The tools that a request cannot do without, with the reason for each."""
    called = {normal(call.name) for turn in turns for call in turn.calls}
    said = _said_in(turns, "system", "user")[-100_000:]  # of a long conversation its end
    # What may be a tool's name: what is no common word, and what stands in quotation marks.
    words = {word.strip("./:-") for word in re.findall(r"[\w./:-]+", said)}
    named = {*filter(_TELLING.search, words), *_QUOTED.findall(said)}
    # {"type": "function", "function": {"name": "find"}} and all other forms: what stands in it as a text.
    forced = set(_QUOTED.findall(repr(tool_choice)))
    needed: Reasons = {}
    for name in names:
        if name in forced:
            needed[name] = "forced by tool_choice"
        elif name in named:
            needed[name] = "named in this conversation"
        elif normal(name) in called:
            needed[name] = "called in this conversation"
    return needed


def _said_in(turns: Sequence[Turn], *roles: str) -> str:
    return "\n".join(turn.text for turn in turns if turn.role in roles)


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
    return {
        "type": "function",
        "function": {
            "name": MORE_TOOLS,
            "description": "Find further tools: this list leaves out tools that are seldom needed. What is found can "
            "be called from the next step on.",
            "parameters": {
                "type": "object",
                "properties": {"query": {"type": "string", "description": about}},
                "required": ["query"],
            },
        },
    }


def described(found: Iterable[FoundTool]) -> str:
    """The tools that were found, for the model: a line of JSON for each."""
    lines: list[str] = []
    for one in found:
        about = {"name": one.name, "description": one.description[:500]}
        lines.append(json.dumps(about, ensure_ascii=False))
    return "\n".join(lines) or "No tool fits these words: try others, or an empty query for all names."
