"""What is recorded of a session's run: the caller's messages, or what is added call by call; at a server both."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import RLock
from typing import Any

from hepm.errors import InputError
from hepm.ingest.formats.turns import GrowingConversation
from hepm.ingest.records import without_surrogates
from hepm.ingest.transitions import hints_in, without_own_hints
from hepm.memory.echo import HintedCalls
from hepm.memory.messages import RecordedMessages, as_messages, starts_alike
from hepm.text import count_of
from hepm.types import ToolCall, Turn

_log = logging.getLogger("hepm")


class SessionConversation:
    """The conversation of one run. Threads may share it.

    Attributes:
        shared: Whether several doors of a server record it: what is added call by call then stands beside the messages.
        added: What was added call by call.
        hinted: Which tools hints named, and when.
        lock: Reentrant: what records a turn may also draw an arm.
    """

    def __init__(self, id: str, system: str) -> None:
        self._id = id
        self._system = system
        self.shared = False
        self.added = RecordedMessages()
        self.hinted = HintedCalls()
        self.lock = RLock()
        self._given: Sequence[object] | None = None
        # What a crash, a restart or a rest left, as messages: the run begins with them.
        self._left: list[dict[str, Any]] = []
        # Texts of hints, by which they are taken out of what the client sends back.
        self._hints: set[str] = set()
        self._reading = GrowingConversation(self._without_hints)

    @property
    def goes_on(self) -> bool:
        """Whether it begins with what was left of the run."""
        return bool(self._left)

    def begin_with(self, turns: Sequence[Turn]) -> None:
        """Begin with turns that were recorded before."""
        self._left = list(as_messages(turns))
        self.hinted = HintedCalls(turns)

    def set_aside(self) -> None:
        """Let what is recorded stand before the messages of another conversation, as what a restart left does."""
        with self.lock:
            self._left = list(as_messages(self.turns()))
            self._given = None
            self.added = RecordedMessages()

    def note_texts(self, text: str) -> None:
        """Note a text of memory that the client may send back."""
        self._hints.update(hints_in(text))

    def add(self, add: Callable[[], None]) -> None:
        """Add a message or a call to those that are recorded one by one; else an InputError."""
        if self._given is not None and not self.shared:
            raise InputError(f"the session {self._id!r} was given messages: append to them, without say() or record()")
        is_first = not self.added.messages
        self.added.place = len(self._given or ())
        add()
        if is_first and self._left and not self.shared:
            self._say_how_it_goes_on(again=starts_alike(self.added.messages[:1], self._left))

    def take(self, messages: Sequence[object]) -> None:
        """Take the caller's list of messages for the conversation; else an InputError."""
        if self.added.messages and not self.shared:
            raise InputError(f"the session {self._id!r} is recorded with say() and record(): go on without messages")
        if self._given is None and self._left:
            # Whether these messages are the whole run, not what came after the crash.
            again = starts_alike(messages, self._left)
            if again and self.shared:  # another door may have recorded what they lack
                self.added.put_before(self._left, messages)
            self._say_how_it_goes_on(again=again)
        self._given = messages

    def _say_how_it_goes_on(self, *, again: bool) -> None:
        """Say whether it takes the place of what a crash left of it, or goes on after that."""
        calls = sum(len(message.get("tool_calls", ())) for message in self._left)
        how = "begins again, in the place of" if again else "goes on after"
        level = logging.DEBUG if self.shared else logging.WARNING
        _log.log(level, "the session %r %s the %s that a crash left of it", self._id, how, count_of(calls, "call"))
        if again:
            self._left = []

    @property
    def messages(self) -> Sequence[object]:
        """The run so far as chat messages."""
        messages: Sequence[object] = self.added.messages
        if self._given is not None:
            messages = self._given
            if self.added.messages:
                messages = self.added.within(messages)
        if not self._left:
            return messages  # the caller's list itself: its messages are read once
        return [*self._left, *messages]

    def turns(self) -> tuple[Turn, ...]:
        """The run so far, without the hints of this session."""
        with self.lock:
            turns = self._reading.turns(self.messages)
        if self._system and not any(turn.role == "system" for turn in turns):
            system = self._without_hints(Turn("system", self._system))
            if system is not None:
                turns = (system, *turns)
        return self.hinted.marked(turns)

    def _without_hints(self, turn: Turn) -> Turn | None:
        """A turn without hints of this session and lone surrogates, which models do write; None if nothing is left."""

        def clean(text: str) -> str:
            return without_surrogates(without_own_hints(text, self._hints))

        text = clean(turn.text)
        calls: list[ToolCall] = []
        for call in turn.calls:
            result = call.result and clean(call.result)
            calls.append(replace(call, arguments=without_surrogates(call.arguments), result=result))
        was_hint_alone = turn.text and not text.strip() and not calls
        if was_hint_alone:
            return None
        return replace(turn, text=text, calls=tuple(calls))
