"""One run of a framework's agent, on a session: what the in-process adapters share."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from threading import RLock
from typing import Any, TypeAlias, TypeVar

from hepm.agents.bounds import Bounded
from hepm.agents.live_run import LiveRun
from hepm.agents.runs import MOST, RECENT, free_id
from hepm.agents.wire import Object, objects, tagged
from hepm.errors import HepmError
from hepm.memory import Memory
from hepm.memory.session import Session
from hepm.types import DEFAULT_NAMESPACE, ToolName

_log = logging.getLogger("hepm")

T = TypeVar("T")

Source: TypeAlias = Memory | Session
"""A memory, which opens a session for each run and stores it at the end. Or a session, which its owner finishes."""

Verdict: TypeAlias = bool | float | None
"""How a run ended: whether it succeeded, or its reward; None if unknown."""


class AgentRun:
    """One run of a framework's agent. No method raises: an agent goes on without memory.

    Args:
        id: Id of the run, if the framework names its conversations; "" for a new one.
        before: Marks of messages of the same conversation that belong to an earlier run, if that has its outcome.
        about: Further arguments of `Memory.session`.
    """

    def __init__(self, source: Source, *, id: str = "", before: Sequence[str] = (), **about: Any) -> None:
        self.id = id
        self._source = source
        self._before = tuple(before)
        self._about = about
        self._live: LiveRun | None = None
        self._record: list[Object] = []
        self._results: dict[str, Object] = {}
        self._tools: list[ToolName] | None = None
        self._ended = False
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
        with fail_open("goes on without a hint"):
            stable, present = self._hint(read(), whole)
        with fail_open("goes on without a hint"):
            return put(stable, present)
        return request

    def _hint(self, said: Sequence[Object], whole: bool) -> tuple[str, str]:
        with self._lock:
            live = self._begin()
            live.extend([self._with_error(message) for message in said], whole=whole)
            self._write(live)
            prompt = live.session.prompt(self._record, tools=self._tools)
            live.stable = live.stable or prompt.stable
            return live.stable, tagged(prompt.present)

    def replied(self, read: Callable[[], Sequence[Object]]) -> None:
        """Record a model's reply, as chat messages."""
        with fail_open("has an unrecorded reply"), self._lock:
            if self._live is not None:
                self._live.reply(read())
                self._write(self._live)

    @contextlib.contextmanager
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
            if self._live is not None and not self._ended:
                self._write(self._live)

    def denied(self, id: str, tool: ToolName, arguments: Object) -> str:
        """Why a call is not to be made, which is recorded then; "" if it may be (see `Session.denial`)."""
        with fail_open("goes on without denials"), self._lock:
            if self._live is None or self._ended:
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
        if self._live is None or self._ended or isinstance(self._source, Session):
            return
        verdict: Verdict = None
        if outcome is not None:
            with fail_open("has no outcome"):
                verdict = outcome(*end)
        with fail_open("is not stored"), self._lock:
            self._ended = True
            if isinstance(verdict, bool):
                self._live.session.finish(success=verdict)
            else:
                self._live.session.finish(reward=verdict)

    @property
    def marks(self) -> tuple[str, ...]:
        """Marks of the conversation so far."""
        if self._live is None:
            return ()
        return (*self._live.before, *self._live.marks)

    def _begin(self) -> LiveRun:
        if self._live is not None and not self._ended:
            return self._live
        namespace = self._about.get("namespace", DEFAULT_NAMESPACE)
        if isinstance(self._source, Session):
            session = self._source
        else:
            own = free_id(self._source, self.id, namespace=namespace)
            session = self._source.session(id=own, **self._about)
        self._live = LiveRun(session, namespace, "adapter")
        self._ended = False
        if isinstance(self._source, Memory) and session.id != self.id:  # what came before has its outcome
            self._live.before = self._before
        return self._live

    def _with_error(self, message: Object) -> Object:
        """A message; the result of a known call with whether it failed."""
        result = self._results.get(message.get("tool_call_id", ""), {})
        is_error = result.get("is_error")
        if is_error is None:
            return message
        return {**message, "is_error": is_error}

    def _write(self, live: LiveRun) -> None:
        """Write the record of the session: the conversation, and the results that it does not contain yet."""
        answered = {message.get("tool_call_id") for message in live.messages}
        late: list[Object] = []
        for message in live.messages:
            for call in objects(message.get("tool_calls")):
                id = call.get("id")
                if id in self._results and id not in answered:
                    late.append(self._results[id])
        self._record[:] = [*live.messages, *late]


class AgentRuns:
    """The runs of one agent."""

    def __init__(self, source: Source, **about: Any) -> None:
        self._source = source
        self._about = about
        # A stream that its reader left has no end; its run is on disk.
        self._under_way: Bounded[str, AgentRun] = Bounded(MOST)
        self._ended: Bounded[str, tuple[str, ...]] = Bounded(RECENT)
        self._lock = RLock()

    def new(self, id: str) -> AgentRun:
        """A run, which may go on with the conversation of an earlier one."""
        return AgentRun(self._source, id=id, before=self._ended.get(id, ()), **self._about)

    def find(self, id: str) -> AgentRun:
        """The run with an id; a new one if none is under way."""
        with self._lock:
            run = self._under_way[id] = self._under_way.get(id) or self.new(id)
            return run

    def end(self, run: AgentRun, outcome: Callable[..., Verdict] | None = None, *end: object) -> None:
        """Store a run (see `AgentRun.finish`)."""
        with self._lock:
            if self._under_way.get(run.id) is run:
                del self._under_way[run.id]
            if run.id and run.marks:
                self._ended[run.id] = run.marks
        run.finish(outcome, *end)


def around(steps: Generator[Any, Any, None], handler: Callable[[Any], Any]) -> Any:
    """Call a handler with what a generator yields; that gets the result, or the error.

    Frameworks want hooks around a call twice, sync and async. The generator is what both do before and after it.
    """
    request = next(steps)
    try:
        result = handler(request)
    except BaseException as error:
        _resume(steps.throw, error)
        raise
    _resume(steps.send, result)
    return result


async def around_async(steps: Generator[Any, Any, None], handler: Callable[[Any], Awaitable[Any]]) -> Any:
    """`around` without blocking the event loop."""
    request = await asyncio.to_thread(next, steps)
    try:
        result = await handler(request)
    except BaseException as error:
        await asyncio.to_thread(_resume, steps.throw, error)
        raise
    await asyncio.to_thread(_resume, steps.send, result)
    return result


def _resume(resume: Callable[[Any], Any], value: object) -> None:
    with contextlib.suppress(StopIteration):
        resume(value)


@contextlib.contextmanager
def fail_open(what: str) -> Generator[None]:
    """Log an error as a warning, and go on."""
    try:
        yield
    except Exception as error:
        known = isinstance(error, HepmError)
        _log.warning("a run %s: %s", what, error if known else type(error).__name__, exc_info=not known)
