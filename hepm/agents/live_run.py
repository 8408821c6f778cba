"""One run under way: the record of its conversation, and how requests of this conversation are recognised."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import takewhile
from threading import RLock
from typing import Any, Final, cast

from hepm.agents.wire import Object, objects
from hepm.memory.session import Session
from hepm.types import SUMMARY_TOOL, Outcome


@dataclass(slots=True)
class Shown:
    """A hint with suggestions, and whether the agent followed it.

    Attributes:
        at: Unix time.
        followed: None until the agent's next calls are known.
    """

    run: str
    namespace: str
    at: float
    tools: tuple[str, ...]
    reason: str
    called: tuple[str, ...] = ()
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
        failed: Errors of calls that a hook sent before the calls, by their id.
        said: What hooks' answers held, see `without_repeats`.
        resumed: Whether it began before this process did.
        before: Marks of the same conversation that are another run's, which has its outcome.
    """

    session: Session
    namespace: str
    door: str
    opening: str = ""
    messages: list[Object] = field(default_factory=list[Object])
    marks: list[str] = field(default_factory=list[str])
    sequel: set[str] = field(default_factory=set[str])
    stable: str = ""
    replied: bool = False
    waiting: int = 0
    kept: int = 0
    name: str = ""
    failed: dict[str, str] = field(default_factory=dict[str, str])
    said: dict[str, str] = field(default_factory=dict[str, str])
    resumed: bool = False
    before: tuple[str, ...] = ()
    outcome: Outcome = field(default_factory=Outcome)
    touched: float = field(default_factory=time.time)
    shown: Shown | None = None
    lock: RLock = field(default_factory=RLock)

    @property
    def id(self) -> str:
        """The id of the stored run."""
        return self.session.id

    @property
    def behind(self) -> bool:
        """Whether a model's reply is in the record and not on disk, as after a crash."""
        return any(message.get("role") == "assistant" for message in self.messages[self.kept :])

    def extend(self, messages: Sequence[Object], marks: Sequence[str] | None = None, *, whole: bool = True) -> None:
        """Bring the record up to date with a request's messages: the whole conversation, or what is new in it."""
        marks = list(map(mark_of, messages)) if marks is None else marks
        own = len(self.before) if whole and tuple(marks[: len(self.before)]) == self.before else 0
        messages, marks = messages[own:], marks[own:]
        known = self.marks
        if not whole:
            at = len(known)
            first = not (known or self.resumed)
            again = not self.replied and known[len(known) - len(marks) :] == marks  # without a reply it is repeated
            fresh = [one for one in range(len(messages)) if first or messages[one].get("role") != "system"]
            fresh = [] if again else fresh
        else:
            at = next(
                (n for n, (a, b) in enumerate(zip(known, marks, strict=False)) if a != b), min(len(known), len(marks))
            )
            fresh = list(range(at, len(marks)))
            if at < len(known) - self.replied and len(known) > at:
                # The client shortened its history. What was recorded stays; what follows the last known message is new.
                seen = set(known)
                last = max((n for n, mark in enumerate(marks) if mark in seen), default=-1)
                later = range(last + 1, len(marks))
                fresh = [n for n in later if messages[n].get("role") not in ("system", "developer")]
                at = len(known)
        del self.messages[at:], self.marks[at:]
        self.kept = min(self.kept, at)
        self.messages.extend(messages[n] for n in fresh)
        self.marks.extend(marks[n] for n in fresh)
        self.replied = False

    def reply(self, messages: Sequence[Object]) -> None:
        """Add a model's reply to the record."""
        self.messages.extend(messages)
        self.marks.extend(map(mark_of, messages))
        self.replied = True


MCP_DOOR: Final = "mcp"


def only_summarised(run: LiveRun) -> bool:
    """Whether nothing is recorded but what the agent summarised over MCP: it says nothing of tools."""
    calls = [name for name in run.session.calls if name != SUMMARY_TOOL]
    return run.door == MCP_DOOR and not run.messages and not calls


def aliases_of(opening: str, marks: Sequence[str]) -> list[str]:
    """A hash for each beginning of a conversation: names by which a server recognises it after a restart."""
    found: list[str] = []
    hashed = blake2b(opening.encode(), digest_size=12)
    for mark in marks:
        hashed.update(mark.encode())
        found.append(hashed.hexdigest())
    return found


def mark_of(message: Object) -> str:
    """A short hash of a message; equal if a client writes it again in its own way."""
    if calls := objects(message.get("tool_calls")):
        said: Any = [(call.get("id"), name_of(call), _arguments(call)) for call in calls]
    else:
        said = _plain(message.get("content"))
    text = said if isinstance(said, str) else json.dumps(said, sort_keys=True, default=str)
    about = f"{message.get('role')!r} {message.get('tool_call_id')!r} {said is text} {text}"
    return blake2b(about.encode("utf-8", "replace"), digest_size=12).hexdigest()


def _plain(content: Any) -> Any:
    """Content as text, so that a string and a list with that text alone are equal."""
    if not isinstance(content, list):
        return content or ""
    parts = cast("list[Any]", content)
    texts = [text for part in objects(parts) if isinstance(text := part.get("text"), str)]
    return "\n".join(texts) if len(texts) == len(parts) else parts


def name_of(call: Object) -> str:
    """The name in a tool call, or of a tool."""
    return str(_inner(call).get("name") or "")


def _arguments(call: Object) -> Any:
    """Parsed, as clients write JSON again in their own way."""
    inner = _inner(call)
    given = inner.get("arguments") or inner.get("input")
    try:
        return json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        return given


def _inner(call: Object) -> Object:
    inner = call.get("function") or call.get("custom")
    return cast(Object, inner) if isinstance(inner, dict) else {}


def opening_of(messages: Sequence[Object], marks: Sequence[str], tools: Any, *apart: str | None) -> str:
    """Hash of the messages before the model's first, and of the names of the tools."""
    before = takewhile(lambda one: one.get("role") != "assistant", messages[:2])
    first = [mark for mark, _ in zip(marks, before, strict=False)]
    names = sorted(name_of(tool) for tool in tools or ())
    return blake2b(json.dumps([first, names, apart]).encode(), digest_size=12).hexdigest()
