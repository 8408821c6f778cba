"""What is recorded of a session's run: the caller's messages, or what is added call by call; at a server both.

Calls that follow a hint which named them are marked: memory must not learn from its own echo.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from operator import is_
from threading import RLock

from hepm.errors import InputError
from hepm.graph.delta import Names
from hepm.ingest.formats.turns import GrowingConversation
from hepm.ingest.records import without_surrogates
from hepm.ingest.transitions import hints_in, tool_names, without_own_hints
from hepm.memory.messages import (
    AddedMessage,
    as_messages,
    call_and_result,
    left_beside,
    merged,
    starts_alike,
)
from hepm.text import count_of
from hepm.types import Arguments, Messages, Object, Objects, ToolCall, ToolName, Turn

_log = logging.getLogger("hepm")


class HintedCalls:
    """The tools that hints of a run named, by how many calls it had made then.

    The agent's own summaries are no calls here. Turns of an earlier process bring their marks with them.
    """

    def __init__(self, turns: Sequence[Turn] = ()) -> None:
        self._named: dict[int, Names] = {}
        self._marked: dict[int, tuple[Turn, Turn]] = {}  # by their places: turns as they came, and marked
        made = 0
        for turn in turns:
            self.note(turn.hinted, calls=made)
            made += len(tool_names(turn))

    def note(self, tools: Sequence[ToolName], *, calls: int) -> None:
        """Note that a hint named tools after so many calls."""
        if tools:
            # {2: ("book",)}: after two calls a hint named book.
            self._named[calls] = tuple(dict.fromkeys((*self._named.get(calls, ()), *tools)))

    def marked(self, turns: Sequence[Turn]) -> tuple[Turn, ...]:
        """The turns, each with what hints named since the turn with calls before it began."""
        if not self._named:
            return tuple(turns)
        marked: list[Turn] = []
        since = made = 0
        for place, turn in enumerate(turns):
            calls = len(tool_names(turn)) if turn.calls else 0
            if not calls:
                marked.append(turn)
                continue
            # A hint may also have come between parallel calls, or more than once before one turn.
            named: dict[ToolName, None] = {}
            for number in range(since, made + 1):
                named.update(dict.fromkeys(self._named.get(number, ())))
            before, same = self._marked.get(place, (None, turn))
            if before is not turn or same.hinted != tuple(named):
                same = replace(turn, hinted=tuple(named)) if named else turn
                self._marked[place] = turn, same
            marked.append(same)
            # Hints of this turn's own calls belong to the next one.
            since = made + 1
            made += calls
        return tuple(marked)


class SessionConversation:
    """The conversation of one run. Threads may share it.

    Attributes:
        shared: Whether several doors of a server record it: what is added call by call then stands beside the messages.
        hinted: Which tools hints named, and when.
        lock: Reentrant: what records a turn may also draw an arm.
    """

    def __init__(self, id: str, system: str) -> None:
        self._id = id
        self._system = system
        self.shared = False
        self.hinted = HintedCalls()
        self.lock = RLock()
        self._added: list[AddedMessage] = []
        self._calls = 0
        self._given: Messages | None = None
        # What a crash, a restart or a rest left, as messages: the run begins with them.
        self._left: Objects = []
        # Texts of hints, by which they are taken out of what the client sends back; `_said` are yet to be taken apart.
        self._hints = set[str]()
        self._said: list[str] = []
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
            self._added = []

    def note_texts(self, text: str) -> None:
        """Note a text of memory that the client may send back."""
        if text:
            self._said.append(text)

    def say(self, role: str, text: str) -> None:
        """Add a message; InputError if the run is recorded by its messages."""
        self._check_added_to()
        self._append({"role": role, "content": text})

    def call(
        self,
        tool: ToolName,
        arguments: Arguments | None,
        result: object,
        error: bool | None,
        *,
        together: bool,
        hidden: bool,
        id: str,
        refused: bool,
    ) -> None:
        """Add a call and its result (see `Session.record`).

        Raises:
            InputError: it cannot be recorded. Nothing of it is.
        """
        self._check_added_to()
        # Check everything before storing any of it: a part that cannot be stored would spoil the run.
        self._calls += 1
        id = id or f"recorded_{self._calls}"
        call, text = call_and_result(tool, arguments, result, id)
        messages = [recorded.message for recorded in self._added]
        before = next((message for message in reversed(messages) if message.get("tool_calls")), None)
        last = messages[-1] if messages else {}
        if together and before is not None:
            before["tool_calls"].append(call)
        elif last.get("role") == "assistant" and "tool_calls" not in last and not hidden:
            last["tool_calls"] = [call]  # its text is said, and this is its call
        else:
            self._append({"role": "assistant", "content": "", "tool_calls": [call], "hidden": hidden})
        if result is not None or error is not None or refused:
            self._append({"role": "tool", "tool_call_id": id, "content": text, "is_error": error, "refused": refused})

    def _check_added_to(self) -> None:
        if self._given is not None and not self.shared:
            raise InputError(f"the session {self._id!r} was given messages: append to them, without say() or record()")

    def _append(self, message: Object) -> None:
        self._added.append(AddedMessage(message, len(self._given or ())))
        if len(self._added) == 1 and self._left and not self.shared:
            self._say_how_it_goes_on(again=starts_alike([message], self._left))

    @property
    def last_reply(self) -> Object | None:
        """The agent's last message of those added; what is put into it is recorded with its turn."""
        for message, *_ in reversed(self._added):
            if message["role"] == "assistant" and not message.get("hidden"):
                return message
        return None

    def take(self, messages: Messages) -> None:
        """Take the caller's list of messages for the conversation; else an InputError."""
        if self._added and not self.shared:
            raise InputError(f"the session {self._id!r} is recorded with say() and record(): go on without messages")
        if self._given is None and self._left:
            # Whether these messages are the whole run, not what came after the crash.
            again = starts_alike(messages, self._left)
            if again and self.shared:  # another door may have recorded what they lack
                self._added[:0] = left_beside(self._left, messages)
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

    def turns(self) -> tuple[Turn, ...]:
        """The run so far, without the hints of this session; each turn with the tools that they named before it."""
        return self.hinted.marked(self.unmarked())

    def unmarked(self) -> tuple[Turn, ...]:
        """The same without these tools."""
        with self.lock:
            while self._said:  # not when they are shown, as the agent waits then
                self._hints.update(hints_in(self._said.pop()))
            messages: Messages = [recorded.message for recorded in self._added]
            # The caller's list itself, where there is nothing else: its messages are read once.
            if self._given is not None:
                messages = merged(self._given, self._added) if self._added else self._given
            if self._left:
                messages = [*self._left, *messages]
            turns = self._reading.turns(messages)
        if self._system and not any(turn.role == "system" for turn in turns):
            system = self._without_hints(Turn("system", self._system))
            if system is not None:
                turns = (system, *turns)
        return turns

    def _without_hints(self, turn: Turn) -> Turn | None:
        """A turn without hints of this session and lone surrogates, which models do write; None if nothing is left."""

        # Also those of before a crash, as long as they are where the user's and the tools' texts are not.
        own = None if turn.role == "system" else self._hints

        def clean(text: str) -> str:
            return without_surrogates(without_own_hints(text, own))

        text = clean(turn.text)
        calls: list[ToolCall] = []
        for call in turn.calls:
            parts = without_surrogates(call.arguments), call.result and clean(call.result)
            if parts != (call.arguments, call.result):
                call = replace(call, arguments=parts[0], result=parts[1])  # noqa: PLW2901
            calls.append(call)
        was_hint_alone = turn.text and not text.strip() and not calls
        if was_hint_alone:
            return None
        if text == turn.text and all(map(is_, calls, turn.calls)):
            return turn
        return replace(turn, text=text, calls=tuple(calls))
