"""One run of a framework's agent, on a session: what the in-process adapters share."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Generator, Iterable, Sequence
from threading import RLock
from typing import Any, TypeAlias

from hepm.agents.runs import LiveRun, free_id
from hepm.agents.wire import Object, objects, tagged
from hepm.errors import HepmError
from hepm.memory import Memory
from hepm.memory.session import Session
from hepm.types import DEFAULT_NAMESPACE, ToolName

_log = logging.getLogger("hepm")

Verdict: TypeAlias = bool | float | None
"""How a run ended: whether it succeeded, or its reward; None if unknown."""


class AgentRun:
    """One run of a framework's agent. No method raises: an agent goes on without memory.

    Args:
        source: A memory, to open a session for this run and store it at the end. Or a session that its owner finishes.
        id: Id of the run, if the framework names its conversations; "" for a new one.
        about: Further arguments of `Memory.session`.
    """

    def __init__(self, source: Memory | Session, *, id: str = "", **about: Any) -> None:
        self._source = source
        self._id = id
        self._about = about
        self._live: LiveRun | None = None
        self._record: list[Object] = []
        self._results: dict[str, Object] = {}
        self._ended = False
        self._lock = RLock()

    def hint(
        self, read: Callable[[], Sequence[Object]], *, tools: Iterable[ToolName] | None = None, whole: bool = True
    ) -> tuple[str, str]:
        """What memory says now: what stays through the run, and what belongs to this turn; "" for nothing.

        Args:
            read: Returns the conversation as OpenAI chat messages.
            tools: Names of the agent's tools; None for any.
            whole: Whether these are all messages, or only those since the model's last reply.
        """
        with fail_open("goes on without a hint"), self._lock:
            messages = [self._with_error(message) for message in read()]
            live = self._begin()
            live.extend(messages, whole=whole)
            self._write(live)
            prompt = live.session.prompt(self._record, tools=tools)
            live.stable = live.stable or prompt.stable
            return live.stable, tagged(prompt.present)
        return "", ""

    def replied(self, read: Callable[[], Sequence[Object]]) -> None:
        """Record a model's reply, as chat messages."""
        with fail_open("has an unrecorded reply"), self._lock:
            if self._live is not None:
                self._live.reply(read())
                self._write(self._live)

    def called(self, id: str, result: object, *, error: bool | None) -> None:
        """Record how a tool call ended, which chat messages do not contain; error is None if unknown."""
        with fail_open("has an unrecorded tool call"), self._lock:
            self._results[id] = tool_result(id, str(result), error=error)
            if self._live is not None:
                ended = self._ended  # a parallel call raised meanwhile
                self._write(self._begin())
                if ended:
                    self.finish()

    def failed(self, id: str, error: str | None) -> None:
        """Record whether a tool call failed, after or instead of its result."""
        known = self._results.get(id)
        self.called(id, known["content"][0]["content"] if known else error or "", error=error is not None)

    def finish(self, outcome: Callable[[], Verdict] = lambda: None) -> None:
        """Store the run, unless its session has another owner. It may still go on."""
        if self._live is None or self._ended or isinstance(self._source, Session):
            return
        verdict: Verdict = None
        with fail_open("has no outcome"):
            verdict = outcome()
        success, reward = (verdict, None) if isinstance(verdict, bool) else (None, verdict)
        with fail_open("is not stored"), self._lock:
            self._ended = True
            self._live.session.finish(success=success, reward=reward)

    def _begin(self) -> LiveRun:
        if self._live is not None and not self._ended:
            return self._live
        if isinstance(self._source, Session):
            session, namespace = self._source, ""
        else:
            namespace = self._about.get("namespace", DEFAULT_NAMESPACE)
            own = self._live.id if self._live is not None else self._id
            session = self._source.session(id=free_id(self._source, own, namespace=namespace), **self._about)
        if self._live is None:
            self._live = LiveRun(session, namespace, "adapter")
        self._live.session, self._ended = session, False
        return self._live

    def _with_error(self, message: Object) -> Object:
        """A message; the result of a known call with whether it failed."""
        id = message.get("tool_call_id")
        if message.get("role") != "tool" or id not in self._results:
            return message
        [known] = self._results[id]["content"]
        return tool_result(id, message.get("content"), error=known["is_error"])

    def _write(self, live: LiveRun) -> None:
        """Write the record of the session: the conversation, and the results that it does not contain yet."""
        answered = {part.get("tool_use_id") for one in live.messages for part in objects(one.get("content"))}
        answered |= {one.get("tool_call_id") for one in live.messages}
        issued = [call.get("id") for one in live.messages for call in objects(one.get("tool_calls"))]
        late = [self._results[id] for id in issued if id in self._results and id not in answered]
        self._record[:] = [*live.messages, *late]


def tool_result(id: str, content: object, *, error: bool | None) -> Object:
    """The result of a call as a chat message, with whether it failed."""
    block = {"type": "tool_result", "tool_use_id": id, "content": content, "is_error": error}
    return {"role": "user", "content": [block]}


@contextlib.contextmanager
def fail_open(what: str) -> Generator[None]:
    """Log an error as a warning, and go on."""
    try:
        yield
    except Exception as error:
        known = isinstance(error, HepmError)
        _log.warning("a run %s: %s", what, error if known else type(error).__name__, exc_info=not known)
