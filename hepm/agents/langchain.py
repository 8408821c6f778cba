"""Memory for agents of LangChain: `create_agent(model, tools, middleware=[HepmMiddleware(memory)])`."""

# pyright: basic, reportMissingImports=false, reportInvalidTypeForm=false
# The environment of the type check lacks this framework.
from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from threading import Lock
from typing import Annotated, Any, NotRequired
from uuid import uuid4

from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.messages import HumanMessage, SystemMessage, convert_to_openai_messages
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp

from hepm.agents.adapter import AgentRun, Verdict, fail_open, tool_result
from hepm.agents.wire import Object
from hepm.memory import Memory
from hepm.memory.session import Session


class HepmState(AgentState[Any]):
    """The agent's state, and the run that it belongs to."""

    hepm_run: NotRequired[Annotated[str, PrivateStateAttr]]


class HepmMiddleware(AgentMiddleware[HepmState, Any, Any]):
    """Gives the agent hints before each call of its model, and records its runs.

    A run is one `invoke` or `stream`. With a checkpointer it is the whole thread so far, stored under its `thread_id`.

    Args:
        source: A memory, which stores each run at its end. Or the session of one run, which you finish.
        outcome: Called with the final state: whether the run succeeded, or its reward. Without it a run is stored
            without a label, and `Memory.label` sets it.
        about: Further arguments of `Memory.session`: task, user, environment, namespace.
    """

    state_schema = HepmState

    def __init__(
        self, source: Memory | Session, *, outcome: Callable[[Any], Verdict] = lambda state: None, **about: Any
    ) -> None:
        super().__init__()
        self._source = source
        self._outcome = outcome
        self._about = about
        self._runs: dict[str, AgentRun] = {}
        self._lock = Lock()

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        """Begin a run."""
        thread = ""
        with fail_open("has no thread"):
            thread = get_config().get("configurable", {}).get("thread_id") or ""
        return {"hepm_run": str(thread or uuid4().hex)}

    def after_agent(self, state: Any, runtime: Any) -> None:
        """Store a run."""
        self._end(state, lambda: self._outcome(state))

    async def aafter_agent(self, state: Any, runtime: Any) -> None:
        """Store a run."""
        await asyncio.to_thread(self.after_agent, state, runtime)

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Call the model with a hint."""
        run = self._run(request.state)
        try:
            response = handler(_hinted(run, request))
        except BaseException:
            self._end(request.state)
            raise
        run.replied(lambda: _chat(getattr(response, "result", [])))
        return response

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Call the model with a hint."""
        run = self._run(request.state)
        try:
            response = await handler(await asyncio.to_thread(_hinted, run, request))
        except BaseException:
            await asyncio.to_thread(self._end, request.state)
            raise
        run.replied(lambda: _chat(getattr(response, "result", [])))
        return response

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Call a tool, and record how it ended."""
        run = self._run(request.state)
        try:
            result = handler(request)
        except BaseException as error:
            self._failed(run, request, error)
            raise
        _record(run, request, result)
        return result

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Call a tool, and record how it ended."""
        run = self._run(request.state)
        try:
            result = await handler(request)
        except BaseException as error:
            await asyncio.to_thread(self._failed, run, request, error)
            raise
        await asyncio.to_thread(_record, run, request, result)
        return result

    def _run(self, state: Any) -> AgentRun:
        id = state.get("hepm_run", "")
        with self._lock:
            if id not in self._runs:
                self._runs[id] = AgentRun(self._source, id=id, **self._about)
            return self._runs[id]

    def _end(self, state: Any, outcome: Callable[[], Verdict] = lambda: None) -> None:
        if run := self._runs.pop(state.get("hepm_run", ""), None):
            run.finish(outcome)

    def _failed(self, run: AgentRun, request: Any, error: BaseException) -> None:
        if not isinstance(error, GraphBubbleUp):  # an interrupt: the run goes on later
            run.called(request.tool_call["id"], f"{type(error).__name__}: {error}", error=True)
        self._end(request.state)


def _hinted(run: AgentRun, request: Any) -> Any:
    system, messages = request.system_message, request.messages
    tools = [name for tool in request.tools if (name := _name(tool))]
    stable, present = run.hint(lambda: _chat([*([system] if system else []), *messages]), tools=tools)
    with fail_open("goes on without a hint"):
        if stable:
            system = SystemMessage(stable) if system is None else _with_text(system, stable)
        if present and messages and messages[-1].type in ("human", "tool"):
            messages = [*messages[:-1], _with_text(messages[-1], present)]
        elif present:
            messages = [*messages, HumanMessage(present)]
        request = request.override(system_message=system, messages=messages)
    return request


def _with_text(message: Any, text: str) -> Any:
    """A copy of a message with a text at its end."""
    content = message.content
    content = f"{content}\n\n{text}" if isinstance(content, str) else [*content, {"type": "text", "text": text}]
    return message.model_copy(update={"content": content})


def _chat(messages: Sequence[Any]) -> list[Object]:
    """OpenAI chat messages; a result with whether its call failed."""
    found: list[Object] = []
    for message, read in zip(messages, map(convert_to_openai_messages, messages), strict=True):
        if message.type == "tool":
            found.append(tool_result(message.tool_call_id, read["content"], error=message.status == "error"))
        else:
            found.append(read)
    return found


def _name(tool: Any) -> str:
    if not isinstance(tool, dict):
        return tool.name
    return tool.get("name") or tool.get("function", {}).get("name") or ""


def _record(run: AgentRun, request: Any, result: Any) -> None:
    if getattr(result, "type", "") == "tool":  # else a Command, whose message comes with the next request
        run.called(request.tool_call["id"], result.text, error=result.status == "error")
