"""One run of a framework's agent, on a session: what the in-process adapters share."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any, Final, TypeAlias, TypeVar
from uuid import uuid4

from hepm.agents.live_run import Bounded, LiveRun
from hepm.agents.runs import MOST, LiveRuns
from hepm.agents.wire import objects, tagged
from hepm.errors import HepmError
from hepm.memory import Memory
from hepm.memory.session import Session
from hepm.types import DEFAULT_NAMESPACE, Object, ToolName

_log = logging.getLogger("hepm")

_DOOR: Final = "adapter"

T = TypeVar("T")

Source: TypeAlias = Memory | Session
"""A memory, which opens a session for each run and stores it at the end. Or a session, which its owner finishes."""

Verdict: TypeAlias = bool | float | None
"""How a run ended: whether it succeeded, or its reward; None if unknown."""


class AgentRun:
    """One run of a framework's agent. No method raises: an agent goes on without memory.

    Args:
        source: The runs of the agent's memory, or a session, which its owner finishes.
        id: Id of the run, if the framework names its conversations; "" for a new one.
        about: Further arguments of `Memory.session`.
    """

    def __init__(self, source: LiveRuns | Session, *, id: str = "", **about: Any) -> None:
        self.id = id or uuid4().hex
        self._source = source
        self._about: Object = {"namespace": DEFAULT_NAMESPACE, **about}
        self._live: LiveRun | None = None
        self._results: dict[str, Object] = {}
        self._tools: list[ToolName] | None = None
        self._lock = RLock()

    def hinted(
        self,
        request: T,
        read: Callable[[], Sequence[Object]],
        put: Callable[[str, str], T],
        *,
        tools: Iterable[ToolName] | None = None,
        whole: bool = True,
    ) -> T:
        """A request with what memory says now, and without hints that others forged in it (`without_foreign_hints`).

        Args:
            read: Returns the conversation as OpenAI chat messages; results may say `is_error`.
            put: Returns the request with what stays through the run, and with what belongs to this turn; "" for none,
                or if memory fails.
            tools: Names of the agent's tools; None for any.
            whole: Whether these are all messages, or only those since the model's last reply.
        """
        stable = present = ""
        self._tools = None if tools is None else list(tools)
        with fail_open("goes on without a hint"), self._lock:
            live = self._live = self._continued([self._with_error(message) for message in read()], whole)
            prompt = live.session.prompt(live.messages, tools=self._tools)
            live.stable = live.stable or prompt.stable
            stable = live.stable
            present = tagged(prompt.present)
        with fail_open("goes on without a hint"):
            return put(stable, present)
        return request

    def _continued(self, messages: Sequence[Object], whole: bool) -> LiveRun:
        """The run with these messages in its record."""
        if isinstance(self._source, LiveRuns):
            return self._source.continued(messages, id=self.id, door=_DOOR, **self._about)
        live = self._live or LiveRun(self._source, DEFAULT_NAMESPACE, _DOOR)
        live.extend(messages, whole=whole)
        return live

    def replied(self, read: Callable[[], Sequence[Object]]) -> None:
        """Record a model's reply, as chat messages."""
        with fail_open("has an unrecorded reply"), self._lock:
            if self._live is not None:
                self._live.reply(read())

    @contextmanager
    def calling(self, id: str, *, interrupts: tuple[type[Exception], ...] = ()) -> Generator[None]:
        """A tool call under way. An exception is its error, unless it only interrupts."""
        try:
            yield
        except Exception as error:
            if not isinstance(error, interrupts):
                self.called(id, f"{type(error).__name__}: {error}", error=True)
            raise

    def called(self, id: str, result: object, *, error: bool | None) -> None:
        """Record how a tool call ended, which the next request may not contain; error is None if unknown."""
        with fail_open("has an unrecorded tool call"), self._lock:
            self._results[id] = {"role": "tool", "tool_call_id": id, "content": str(result), "is_error": error}
            live = self._live
            if live is None or live.over:
                return
            # Behind what requests and replies contain: the next request brings these results itself.
            del live.messages[len(live.marks) :]
            answered = {message.get("tool_call_id") for message in live.messages}
            for message in list(live.messages):
                for call in objects(message.get("tool_calls")):
                    if call.get("id") in self._results.keys() - answered:
                        live.messages.append(self._results[call["id"]])

    def denied(self, id: str, tool: ToolName, arguments: Object) -> str:
        """Why a call is not to be made, which is recorded then; "" if it may be (see `Session.denial`)."""
        with fail_open("goes on without denials"), self._lock:
            if self._live is None or self._live.over:
                return ""
            denial = self._live.session.denial(tool, arguments, tools=self._tools)
            if denial is not None:
                # Else a framework's history, for which it is a result, says that the call worked.
                self.called(id, denial.text, error=True)
                return denial.text
        return ""

    def failed(self, id: str, error: str | None) -> None:
        """Record whether a tool call failed, after or instead of its result."""
        known = self._results.get(id, {}).get("content")
        self.called(id, known or error or "", error=error is not None)

    def finish(self, outcome: Callable[..., Verdict] | None = None, *end: object) -> None:
        """Store the run, unless its session has another owner. It may still go on.

        Args:
            outcome: Called with `end`: how the run ended.
        """
        live = self._live
        runs = self._source
        if live is None or live.over or isinstance(runs, Session):
            return
        verdict: Verdict = None
        if outcome is not None:
            with fail_open("has no outcome"):
                verdict = outcome(*end)
        with fail_open("is not stored"), self._lock:
            if verdict is None:
                runs.rest(live)
            else:
                named = "success" if isinstance(verdict, bool) else "reward"
                about: Object = {"success": None, "reward": None, named: verdict}
                runs.finish(live.id, namespace=live.namespace, **about)
            runs.sweep()  # streams that their readers left

    def _with_error(self, message: Object) -> Object:
        """A message; the result of a known call with whether it failed."""
        is_error = self._results.get(message.get("tool_call_id", ""), {}).get("is_error")
        if is_error is None:
            return message
        return {**message, "is_error": is_error}


class AgentRuns:
    """The runs of one agent."""

    def __init__(self, source: Source, **about: Any) -> None:
        self._source = LiveRuns(source) if isinstance(source, Memory) else source
        self._about = about
        # A stream that its reader left has no end; its run is on disk.
        self._under_way = Bounded[str, AgentRun](MOST)

    def new(self, id: str) -> AgentRun:
        """A run, which may go on with the conversation of an earlier one."""
        return AgentRun(self._source, id=id, **self._about)

    def find(self, id: str) -> AgentRun:
        """The run with an id; a new one if none is under way."""
        run = self._under_way[id] = self._under_way.get(id) or self.new(id)
        return run

    def end(self, run: AgentRun, outcome: Callable[..., Verdict] | None = None, *end: object) -> None:
        """Store a run (see `AgentRun.finish`)."""
        self._under_way.pop(run.id, None)
        run.finish(outcome, *end)


@contextmanager
def fail_open(what: str) -> Generator[None]:
    """Log an error as a warning, and go on."""
    try:
        yield
    except Exception as error:
        known = isinstance(error, HepmError)
        _log.warning("a run %s: %s", what, error if known else type(error).__name__, exc_info=not known)
