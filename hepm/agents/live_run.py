"""One run under way: the record of its conversation, and how requests of this conversation are recognised."""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from hashlib import blake2b
from threading import RLock
from typing import Any, Final, TypeAlias, TypeVar

from hepm.agents.recordable import recordable
from hepm.agents.wire import Object, inner_of, name_of, objects, parsed
from hepm.errors import StoreError
from hepm.experience.prompt import Prompt
from hepm.graph.delta import Names
from hepm.ingest.fields import is_list
from hepm.memory.journal import common
from hepm.memory.session import Session
from hepm.types import SUMMARY_TOOL, Objects, Outcome, ToolCall, ToolName

K = TypeVar("K")
V = TypeVar("V")
Key: TypeAlias = tuple[str, str]
"""A namespace, and a name in it."""


class Bounded(OrderedDict[K, V]):
    """Keeps the `most` keys that were set last: so much does a server remember of its clients."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        while len(self) > self._most:
            self.popitem(last=False)


@dataclass(slots=True)
class Shown:
    """What memory said before a turn, and whether the agent followed the suggestion in it.

    Attributes:
        at: Unix time.
        after: The tool called last; START before the first call.
        tools: Suggested ones; none where it only warned or gave lessons.
        warned: Tools that it warned of.
        lessons: How many lessons it gave.
        reason: "" until it is put into words, as an agent does not read it.
        usual: Whether nearly all successful runs call the first tool here: it is not counted as followed or not. Known
            with `followed`.
        followed: None until the agent's next calls are known, and where no tool was suggested.
    """

    run: str
    namespace: str
    at: float
    after: ToolName
    tools: Names
    warned: Names
    lessons: int
    reason: str = ""
    usual: bool = False
    called: Names = ()
    followed: bool | None = None


TOKEN: Final = ContextVar("token", default="")
"""Name of the token of the request under way; "" at a server without tokens."""


@dataclass(slots=True)
class LiveRun:
    """One run under way.

    Attributes:
        messages: The conversation so far, as chat messages: the record of its session.
        marks: A short hash of each message, to recognise the conversation.
        opening: Hash of what opens it, which concurrent runs of one task share.
        sequel: Ids of the responses and the conversation that a next request may continue.
        stable: What memory said at the first request, kept so that a provider's prompt cache works.
        outcome: As evaluations in a trace say it.
        replied: Whether the last message is the model's, as it was sent.
        waiting: Requests that have no reply yet.
        kept: How many messages were on disk after the last reply.
        name: The id that the client gave; another one than the run's if that was taken by a run with an outcome.
        failed: Calls of this turn that failed, which a hook reports before the turn is over.
        reported: Ids of the calls that hooks reported.
        shown_texts: What hooks' answers held, see `without_repeats`.
        resumed: Whether it began before this process did.
        before: Marks of the same conversation that are another run's, which has its outcome.
        unlisted: Names of the agent's tools that are not in its list (`hepm.agents.tool_lists`); None without a list.
        sends_all: Whether these are sent all the same.
        missed: Whether it called one of them.
        failed_upstream: Whether the endpoint itself failed at the last request with a hint.
        over: Whether it was taken out of the runs under way: who waited for its lock asks for another one.
        finished: Whether it has its outcome.
        prompt: What memory said last, until the reason for it is put into words.
    """

    session: Session
    namespace: str
    door: str
    opening: str = ""
    messages: Objects = field(default_factory=Objects)
    marks: list[str] = field(default_factory=list[str])
    sequel: set[str] = field(default_factory=set[str])
    stable: str = ""
    replied: bool = False
    waiting: int = 0
    kept: int = 0
    name: str = ""
    failed: list[ToolCall] = field(default_factory=list[ToolCall])
    reported: set[str] = field(default_factory=set[str])
    shown_texts: dict[str, str] = field(default_factory=dict[str, str])
    resumed: bool = False
    before: tuple[str, ...] = ()
    failed_upstream: bool = False
    unlisted: set[str] | None = None
    sends_all: bool = False
    missed: bool = False
    over: bool = False
    finished: bool = False
    outcome: Outcome = field(default_factory=Outcome)
    touched: float = field(default_factory=time.time)
    shown: Shown | None = None
    prompt: Prompt | None = None
    lock: RLock = field(default_factory=RLock)

    @property
    def id(self) -> str:
        """The id of the stored run."""
        return self.session.id

    @property
    def behind(self) -> bool:
        """Whether a model's reply is in the record and not on disk, as after a crash."""
        return any(message.get("role") == "assistant" for message in self.messages[self.kept :])

    def continued_by(self, marks: Sequence[str]) -> int | None:
        """How many of the messages with these marks it holds, if they begin with all of its own; else None.

        The model's last reply does not count, as it may come back in other words.
        """
        known = [*self.before, *self.marks]
        count = len(known) - self.replied  # True is 1
        return count if known[:count] == list(marks[:count]) else None

    def explain(self) -> None:
        """Put into words why memory said what it said last."""
        prompt, self.prompt = self.prompt, None
        if self.shown is None or prompt is None:
            return
        found = prompt.suggestions
        if found.ranked:
            self.shown.reason = found.ranked[0].reason
        elif found.done:
            self.shown.reason = prompt.hint
        else:
            self.shown.reason = "; ".join([way.named for way in found.warnings])

    def check_kept(self) -> None:
        """Raise a StoreError if what is recorded is in the memory of this process alone, as on a full disk."""
        if not self.session.on_disk:
            self.session.keep()
        if not self.session.on_disk:
            raise StoreError(
                f"there is no room for the session {self.name!r} on the disk: make room, and send it again"
            )

    def extend(self, messages: Sequence[Object], marks: Sequence[str] | None = None, *, whole: bool = True) -> None:
        """Bring the record up to date with a request's messages: the whole conversation, or what is new in it."""
        if marks is None:
            marks = list(map(mark_of, messages))
        if whole and tuple(marks[: len(self.before)]) == self.before:
            # What another run has recorded is no part of this one.
            messages = messages[len(self.before) :]
            marks = marks[len(self.before) :]
        if whole:
            end, new = self._new_of_whole(messages, marks)
        else:
            end = len(self.marks)
            new = self._new_of_sequel(messages, marks)
        del self.messages[end:], self.marks[end:]
        # What was cut off is no longer on disk as a part of this conversation.
        self.kept = min(self.kept, end)
        for place in new:
            self.messages.append(recordable(messages[place]))
            self.marks.append(marks[place])
        self.replied = False

    def _new_of_whole(self, messages: Sequence[Object], marks: Sequence[str]) -> tuple[int, list[int]]:
        """How much of the record stays, and the places of the messages to add, of a whole conversation."""
        known = self.marks
        end = common(known, marks)
        if end >= len(known) - self.replied:  # the model's reply alone may come back in other words
            return end, list(range(end, len(marks)))
        # The client shortened its history. What was recorded stays; what follows the last known message is new.
        # [system, summary, m7, m8, new] continues [system, m1, …, m8]: "new" is to be added, the summary is not.
        seen = set(known)
        first_new = len(marks)
        while first_new > 0 and marks[first_new - 1] not in seen:
            first_new -= 1
        later = range(first_new, len(marks))
        return len(known), [place for place in later if messages[place].get("role") not in ("system", "developer")]

    def _new_of_sequel(self, messages: Sequence[Object], marks: Sequence[str]) -> list[int]:
        """The places of the messages to add, of what follows a response that the client names."""
        known = self.marks
        repeated = not self.replied and known[len(known) - len(marks) :] == marks
        if repeated:  # the request had no reply
            return []
        if not known and not self.resumed:
            return list(range(len(messages)))
        # Clients send their instructions with each request.
        return [place for place, message in enumerate(messages) if message.get("role") != "system"]

    def reply(self, messages: Sequence[Object]) -> None:
        """Add a model's reply to the record."""
        self.messages.extend(map(recordable, messages))
        self.marks.extend(map(mark_of, messages))
        self.replied = True


MCP_DOOR: Final = "mcp"
OTLP_DOOR: Final = "otlp"


def only_summarised(run: LiveRun) -> bool:
    """Whether nothing is recorded but what the agent summarised over MCP: it says nothing of tools."""
    calls = [name for name in run.session.calls if name != SUMMARY_TOOL]
    return run.door == MCP_DOOR and not run.messages and not calls


def aliases_of(opening: str, marks: Sequence[str]) -> list[str]:
    """A hash for each beginning of a conversation: names by which a server recognises it after a restart."""
    aliases: list[str] = []
    # Chained: the third alias depends on the first three messages and on the opening.
    hashed = blake2b(opening.encode(), digest_size=12)
    for mark in marks:
        hashed.update(mark.encode())
        aliases.append(hashed.hexdigest())
    return aliases


def mark_of(message: Object) -> str:
    """A short hash of a message; equal if a client writes it again in its own way."""
    calls = objects(message.get("tool_calls"))
    content: Any
    if calls:
        # The text beside calls is left out: some clients drop it when they send the message back.
        content = [(call.get("id"), name_of(call), _arguments(call)) for call in calls]
    else:
        content = _plain(message.get("content"))
    text = content if isinstance(content, str) else json.dumps(content, sort_keys=True, default=str)
    # Whether it was text is a part: a text that is JSON is another message than calls that are written so.
    about = f"{message.get('role')!r} {message.get('tool_call_id')!r} {content is text} {text}"
    return blake2b(about.encode("utf-8", "replace"), digest_size=12).hexdigest()


def _plain(content: Any) -> Any:
    """Content as text, so that a string and a list with that text alone are equal."""
    if not is_list(content):
        return content or ""
    texts = [part["text"] for part in objects(content) if isinstance(part.get("text"), str)]
    if len(texts) < len(content):  # an image or a file is among them
        return content
    return "\n".join(texts)


def _arguments(call: Object) -> Any:
    """Parsed, as clients write JSON again in their own way."""
    inner = inner_of(call)
    arguments = inner.get("arguments") or inner.get("input")
    if not isinstance(arguments, str):
        return arguments
    known = parsed(arguments)
    return arguments if known is None else known


def opening_of(messages: Sequence[Object], tools: Iterable[Object], *apart: str | None) -> str:
    """Hash of the messages before the model's first, and of the names of the tools."""
    first: list[str] = []
    # The system prompt and the request, as a rule.
    for message in messages[:2]:
        if message.get("role") == "assistant":
            break
        first.append(mark_of(message))
    names = sorted(map(name_of, tools))
    return blake2b(json.dumps([first, names, apart]).encode(), digest_size=12).hexdigest()
