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
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from hepm.embed.embedder import HashingEmbedder
from hepm.errors import InputError, StoreUnavailableError
from hepm.graph.delta import SAID_CHARS, words_of
from hepm.graph.tool_life import ToolNames
from hepm.ingest.fields import is_list, is_object
from hepm.ingest.formats.turns import read_messages
from hepm.ingest.records import decoded_text
from hepm.memory.tool_index import ToolIndex, index_of
from hepm.types import Object, ToolName, Turn, normal

if TYPE_CHECKING:
    from hepm.graph.mirror.namespace_mirror import NamespaceMirror
    from hepm.graph.rows import ToolRow
    from hepm.memory.memory import Memory

MORE_TOOLS: Final = "more_tools"
"""Name of the tool with which a model reaches the tools that were left out."""
MOST_MISSED: Final = 0.05
"""Share of sessions that need a tool which was left out, from which on a namespace gets whole lists again."""
SURE: Final = 0.95
"""How sure that must be, at whichever session it is looked at."""
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
        """Whether more than `MOST_MISSED` of sessions miss one, with `SURE` at every look.

        The likelihoods of all higher rates, in the mean, are 1 / (1 - `SURE`) times that of `MOST_MISSED`: a test
        martingale (Ville's inequality), exact for any number of looks.
        """
        missed, kept = self.missed, self.sessions - self.missed
        # The mean over rates above p0 is a Beta integral, which is a sum of binomial probabilities.
        below = sum(_binomial(self.sessions + 1, count, MOST_MISSED) for count in range(missed + 1))
        of_all = math.lgamma(missed + 1) + math.lgamma(kept + 1) - math.lgamma(self.sessions + 2)
        at_most = missed * math.log(MOST_MISSED) + kept * math.log(1 - MOST_MISSED)
        mean = of_all + math.log(max(below, 1e-300)) - math.log(1 - MOST_MISSED)
        return mean - at_most > -math.log(1 - SURE)

    def __str__(self) -> str:
        return f"{self.missed:,} of {self.sessions:,} sessions needed a tool that is not in the list"


def _binomial(count: int, hits: int, share: float) -> float:
    ways = math.lgamma(count + 1) - math.lgamma(hits + 1) - math.lgamma(count - hits + 1)
    return math.exp(ways + hits * math.log(share) + (count - hits) * math.log(1 - share))


@dataclass(slots=True)
class _List:
    """The stable list of the agents of a namespace that have (about) the same tools.

    Attributes:
        known: Names of all tools that they had.
        kept: Why each tool is in the list, by name, in the order in which they came into it.
    """

    known: set[ToolName]
    kept: dict[ToolName, str] = field(default_factory=dict[ToolName, str])


@dataclass(slots=True)
class _Namespace:
    lists: list[_List] = field(default_factory=list[_List])
    missed: deque[bool] = field(default_factory=lambda: deque(maxlen=_LATEST))
    revision: int = -1
    rows: Sequence[ToolRow] = ()

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
        given = list(tools) if not isinstance(tools, str) else tools
        index = index_of(given)
        turns = _turns_of(messages)
        with self._lock:
            state = self._of(namespace)
        names = list(dict.fromkeys(filter(None, index.names_N)))
        if len(names) <= k:
            return _whole(given, index)
        mirror = self._memory.mirror(namespace)
        found = self._ranked(index, _request_in(turns), mirror)
        needed = self._needed(index, names, turns, tool_choice, mirror, state)
        with self._lock:
            known = state.list_for(names)
            new = [name for name in names if name not in known.known]
            if len(new) <= k:
                needed |= {name: "new" for name in new if name not in needed}
            known.known.update(names)
            most = _GROWS_BY if known.kept else k
            known.kept |= {name: reason for name, reason in needed.items() if name not in known.kept}
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
        given = list(tools) if not isinstance(tools, str) else tools
        index = index_of(given)
        found = self._ranked(index, query, self._memory.mirror(namespace))
        objects = dict(zip(reversed(index.names_N), reversed(given), strict=True))
        return [one._replace(tool=objects[one.name]) for one in found[:k]]

    def find_known(
        self, query: str, names: Sequence[ToolName] | None, *, k: int = 10, namespace: str
    ) -> list[FoundTool]:
        """The same among the tools that recorded runs had or called, but for retired ones; with `names`, of these."""
        rows = {row.name: row for row in self._memory.store.tools(namespace=namespace) if not row.retired}
        if names is None:
            names = list(rows)
        own = ToolNames.of(self._memory.mirror(namespace).marks, (), names).own
        tools: list[Object] = []
        for name in dict.fromkeys(names):
            row = rows.get(own(name))
            if row is None:
                tools.append({"name": name})
            else:
                parameters = decoded_text(row.parameters)
                tools.append({"name": name, "description": row.description, "parameters": parameters})
        return self.find(query, tools, k=k, namespace=namespace)

    def record(self, *, missed: bool, namespace: str) -> None:
        """Count a session with a list, and whether it called a tool that is not in it, found or sent all the same.

        Of the latest 100 sessions of a namespace it is known whether more than `MOST_MISSED` miss a tool: then all
        tools are sent, until a hundred sessions are known of which that is not so.
        """
        with self._lock:
            self._of(namespace).missed.append(missed)

    def miss_rate(self, *, namespace: str) -> MissRate:
        """Of the latest sessions of this process."""
        with self._lock:
            return self._of(namespace).rate

    def off(self) -> dict[str, str]:
        """The namespaces whose sessions get all tools, as too many missed one, with how many that were."""
        with self._lock:
            rates = {name: state.rate for name, state in self._namespaces.items()}
        return {name: str(rate) for name, rate in rates.items() if rate.is_too_high}

    def _of(self, namespace: str) -> _Namespace:
        return self._namespaces.setdefault(namespace, _Namespace())

    def _ranked(self, index: ToolIndex, request: str, mirror: NamespaceMirror) -> list[FoundTool]:
        """The functions that fit a request at all, best first, ties by name."""
        # Vectors of words say nothing that the words do not.
        embedder = None
        if not self._memory.embedder.name.startswith(HashingEmbedder.PREFIX):
            embedder = self._memory.embedder
        scores_N = index.scores(request, embedder)
        score = {name: float(value) for name, value in zip(index.names_N, scores_N, strict=True) if name}
        reasons = dict.fromkeys(score, "fits the words of a request")
        requests = mirror.learned.latest().requests
        names = ToolNames.of(mirror.marks, (), score)

        def add(own: ToolName, amount: float, reason: str) -> None:
            shown = names.shown(own)
            if shown in score:
                score[shown] += amount
                if amount > score[shown] / 2:
                    reasons[shown] = reason

        for tool, share in requests.called_by_alike(words_of(request[:SAID_CHARS])).items():
            add(tool, share, "called by runs of like requests")
        for leading in sorted(score, key=lambda name: -score[name])[:_LEADING]:
            for tool, share in requests.called_before(names.own(leading)).items():
                add(tool, _OF_EARLIER * share * score[leading], f"runs call it before {leading}")
        about = {tool.name: tool.description for tool in index.tools_N if tool is not None}
        best = sorted(score, key=lambda name: (-round(score[name], 6), name))
        return [FoundTool(name, about[name], None, score[name], reasons[name]) for name in best if score[name] > 0]

    def _needed(
        self,
        index: ToolIndex,
        names: Sequence[ToolName],
        turns: Sequence[Turn],
        tool_choice: object,
        mirror: NamespaceMirror,
        state: _Namespace,
    ) -> dict[ToolName, str]:
        """The tools that must stay, with the reason for each."""
        needed: dict[ToolName, str] = {}
        tool_names = ToolNames.of(mirror.marks, (), names)
        # "execute-tool weather/forecast" is a call of "execute-tool".
        called = {tool.partition(" ")[0] for tool in mirror.called()} | mirror.called()
        by_runs = {name for name in names if tool_names.own(name) in called}
        needed |= dict.fromkeys(by_runs, _REASON_RUNS)
        needed |= self._renamed(index, by_runs, mirror, state)
        return needed | needed_here(turns, names, tool_choice)

    def _renamed(
        self, index: ToolIndex, by_runs: set[ToolName], mirror: NamespaceMirror, state: _Namespace
    ) -> dict[ToolName, str]:
        """Tools that have the description of one that runs called and the agent has no more."""
        revision = self._memory.header.revision
        if revision != state.revision:
            try:
                state.rows = self._memory.store.tools(namespace=mirror.name)
                state.revision = revision
            except StoreUnavailableError:  # what was read before still says something
                pass
        gone = {row.description: row.name for row in state.rows if row.calls and row.description}
        offered = {normal(name) for name in index.names_N}
        renamed: dict[ToolName, str] = {}
        for tool in index.tools_N:
            if tool is None or tool.name in by_runs:
                continue
            former = gone.get(tool.description)
            if former is not None and normal(former) not in offered:
                renamed[tool.name] = f"has the description of {former}, which runs called"
        return renamed


def needed_here(turns: Sequence[Turn], names: Iterable[ToolName], tool_choice: object) -> dict[ToolName, str]:
    """The tools that a request cannot do without, with the reason for each."""
    called = {normal(call.name) for turn in turns for call in turn.calls}
    mentioned = _names_in(turns)
    forced = _forced_by(tool_choice)
    needed: dict[ToolName, str] = {}
    for name in names:
        if name in forced:
            needed[name] = "forced by tool_choice"
        elif _is_named(name, mentioned):
            needed[name] = "named in this conversation"
        elif normal(name) in called:
            needed[name] = "called in this conversation"
    return needed


def _turns_of(messages: Sequence[object] | str) -> Sequence[Turn]:
    if isinstance(messages, str):
        return [Turn("user", messages)]
    return read_messages(messages)


def _request_in(turns: Sequence[Turn]) -> str:
    """What the user wrote, the first message and the latest ones, in as many characters as runs are compared by."""
    said = [turn.text for turn in turns if turn.role == "user" and turn.text.strip()]
    text = "\n".join(said)
    if len(text) <= SAID_CHARS:
        return text
    half = SAID_CHARS // 2
    return f"{text[:half]}\n{text[-half:]}"


def _names_in(turns: Sequence[Turn]) -> tuple[set[str], set[str]]:
    """What may be a tool's name in the texts of a conversation, and what stands in quotation marks."""
    text = "\n".join(turn.text for turn in turns if turn.role != "assistant")
    text = text[-_READ_CHARS:]
    return {word.strip("./:-") for word in _NAME.findall(text)}, set(_QUOTED.findall(text))


def _is_named(name: ToolName, mentioned: tuple[set[str], set[str]]) -> bool:
    words, quoted = mentioned
    return name in quoted or (name in words and _TELLING.search(name) is not None)


def _forced_by(choice: object) -> set[str]:
    """The tools that a request must or may call, as in {"type": "function", "function": {"name": "find"}}."""
    if isinstance(choice, str):
        return {choice}
    if is_list(choice):
        return {name for one in choice for name in _forced_by(one)}
    if not is_object(choice):
        return set()
    inner = [choice.get(key) for key in ("name", "function", "custom", "allowed_tools", "tools")]
    return {name for one in inner for name in _forced_by(one)}


def _whole(given: Sequence[object], index: ToolIndex) -> Shortlist:
    reasons = {name: "no more tools than asked for" for name in index.names_N if name}
    return Shortlist(tuple(given), reasons, (), sum(index.tokens_N), 0)


def _shortened(given: Sequence[object], index: ToolIndex, reasons: Mapping[ToolName, str]) -> Shortlist:
    tools: list[object] = []
    kept: dict[ToolName, str] = {}
    left_out: dict[ToolName, None] = {}
    tokens = 0
    for tool, name, size in zip(given, index.names_N, index.tokens_N, strict=True):
        if name and name not in reasons:
            left_out[name] = None
            continue
        tools.append(tool)
        tokens += size
        if name:
            kept[name] = reasons[name]
    return Shortlist(tuple(tools), kept, tuple(left_out), tokens, sum(index.tokens_N) - tokens)


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
