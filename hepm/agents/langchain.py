"""Memory for agents of LangChain: `create_agent(model, tools, middleware=[HepmMiddleware(memory)])`."""

# pyright: basic, reportMissingImports=false, reportInvalidTypeForm=false
# The environment of the type check lacks this framework.
from __future__ import annotations

from asyncio import to_thread
from collections.abc import Callable
from typing import Annotated, Any, NotRequired
from uuid import uuid4

from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage, messages_to_dict
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp

from hepm.agents.adapter import AgentRun, AgentRuns, Source, Verdict
from hepm.agents.wire import appended, placement_for, without_foreign_hint
from hepm.ingest.formats.message_layouts import chat_messages
from hepm.types import Object, Objects


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

    def __init__(self, source: Source, *, outcome: Callable[[Any], Verdict] | None = None, **about: Any) -> None:
        super().__init__()
        self._outcome = outcome
        self._runs = AgentRuns(source, **about)

    def before_agent(self, state: Any, runtime: Any) -> Object:
        """Begin a run."""
        known = get_config().get("configurable", {})
        thread = known.get("thread_id")
        # An agent that is another one's tool inherits its thread, and is a run of its own.
        if not thread or "tools:" in known.get("checkpoint_ns", ""):
            thread = uuid4().hex
        return {"hepm_run": str(thread)}

    def after_agent(self, state: Any, runtime: Any) -> None:
        """Store a run."""
        self._runs.end(self._run(state), self._outcome, state)

    async def aafter_agent(self, state: Any, runtime: Any) -> None:
        """Store a run."""
        await to_thread(self.after_agent, state, runtime)

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        """Call the model with a hint, and record its reply."""
        run = self._run(request.state)
        try:
            response = handler(_hinted(run, request))
        except BaseException:
            self._runs.end(run)
            raise
        run.replied(lambda: _chat(response.result))
        return response

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        """Call the model with a hint, and record its reply."""
        run = self._run(request.state)
        try:
            response = await handler(await to_thread(_hinted, run, request))
        except BaseException:
            await to_thread(self._runs.end, run)
            raise
        await to_thread(run.replied, lambda: _chat(response.result))
        return response

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Call a tool, and record how it ended; one that memory denies is not called."""
        denied = self._denied(request)
        run = self._run(request.state)
        if denied is not None:
            return denied
        try:
            with run.calling(request.tool_call["id"], interrupts=(GraphBubbleUp,)):
                return _noted(run, request, handler(request))
        except BaseException:
            self._runs.end(run)
            raise

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Call a tool, and record how it ended; one that memory denies is not called."""
        denied = await to_thread(self._denied, request)
        run = self._run(request.state)
        if denied is not None:
            return denied
        try:
            with run.calling(request.tool_call["id"], interrupts=(GraphBubbleUp,)):
                result = await handler(request)
                # The run may be busy with a hint of another branch, which a model can take seconds for.
                return await to_thread(_noted, run, request, result)
        except BaseException:
            await to_thread(self._runs.end, run)
            raise

    def _denied(self, request: Any) -> ToolMessage | None:
        call = request.tool_call
        text = self._run(request.state).denied(call["id"], call["name"], call["args"])
        return ToolMessage(text, tool_call_id=call["id"], name=call["name"], status="error") if text else None

    def _run(self, state: Any) -> AgentRun:
        return self._runs.find(state.get("hepm_run", ""))


def _hinted(run: AgentRun, request: Any) -> Any:
    system = request.system_message
    messages = request.messages
    tools = [_tool_name(tool) for tool in request.tools]

    def put(stable: str, present: str) -> Any:
        prompt = system
        if stable:
            prompt = _with_text(system or SystemMessage(""), stable)
        sent = [_without_foreign_hint(message) for message in messages]
        last = sent[-1]
        is_behind = placement_for(type(request.model).__name__) == "behind"
        if present and (last.type == "human" or (last.type == "tool" and not is_behind)):
            sent[-1] = _with_text(last, present)
        elif present:
            sent.append(HumanMessage(present))
        return request.override(system_message=prompt, messages=sent)

    conversation = list(messages)
    if system:
        conversation.insert(0, system)
    return run.hinted(request, lambda: _chat(conversation), put, tools=tools)


def _chat(messages: Any) -> Objects:
    return chat_messages(messages_to_dict(messages))


def _noted(run: AgentRun, request: Any, result: Any) -> Any:
    """The result of a tool call, which the run keeps; that of a Command comes with the next request."""
    if getattr(result, "type", "") == "tool":
        run.called(request.tool_call["id"], result.text, error=result.status == "error")
    return result


def _tool_name(tool: Any) -> str:
    if isinstance(tool, dict):
        return tool.get("name", "")
    return tool.name


def _without_foreign_hint(message: Any) -> Any:
    if message.type in ("system", "ai"):
        return message
    return message.model_copy(update={"content": without_foreign_hint(message.content)})


def _with_text(message: Any, text: str) -> Any:
    return message.model_copy(update={"content": appended(message.content, text)})
