"""Memory for agents of the OpenAI Agents SDK: hooks and a run configuration for one run."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportArgumentType=false
# pyright: reportOptionalMemberAccess=false
# The environment of the type check lacks this framework.
from __future__ import annotations

import asyncio
import inspect
from dataclasses import replace
from functools import cache
from typing import Any, cast

from agents import Agent, Handoff, RunConfig, RunContextWrapper, RunHooks, Span, Trace, TracingProcessor
from agents.run import CallModelData, ModelInputData
from agents.tracing import add_trace_processor, get_current_span

from hepm.agents.adapter import AgentRun, fail_open
from hepm.agents.wire import Object, messages_of, with_hint, without_foreign_hints
from hepm.memory.session import Session
from hepm.types import Objects


class HepmRunHooks(RunHooks[Any]):
    """Gives an agent hints before each call of its model, and records the run in a session that you finish.

        hepm = HepmRunHooks(session)
        result = await Runner.run(agent, text, hooks=hepm, run_config=hepm.run_config())

    Subclass it for hooks of your own. Failed calls are known from the SDK's tracing; without it, errors are unknown.
    """

    def __init__(self, session: Session) -> None:
        self._run = AgentRun(session)
        self._agent: Agent[Any] | None = None
        self._tools: list[str] | None = None
        self._first: Object | None = None
        _failures()

    def run_config(self, config: RunConfig | None = None) -> RunConfig:
        """A run's configuration, yours if you have one. Your `call_model_input_filter` comes before the hint."""
        config = config or RunConfig()
        own = config.call_model_input_filter

        async def filtered(data: CallModelData[Any]) -> ModelInputData:
            if own is not None:
                changed = own(data)
                data = replace(data, model_data=await changed if inspect.isawaitable(changed) else changed)
            return await self._hinted(data)

        return replace(config, call_model_input_filter=filtered)

    async def _hinted(self, data: CallModelData[Any]) -> ModelInputData:
        given = data.model_data
        items = cast("Objects", data.model_data.input)
        if not items or (self._agent is not None and data.agent is not self._agent):
            return given  # an agent that this one uses as a tool
        self._first = self._first or items[0]
        # If the server keeps the conversation, only new items come. A changed one would count as new, and a hint among
        # them would stay; the instructions are not kept. A first request does not show which it is.
        whole = items[0] == self._first
        is_kept = not whole or not any(item.get("role") == "assistant" or "call_id" in item for item in items)
        body = {"input": items, "instructions": given.instructions, "store": is_kept}

        def put(stable: str, present: str) -> ModelInputData:
            own = without_foreign_hints("responses", body)
            changed = with_hint("responses", own, stable=stable, present=present, placement="behind")
            return ModelInputData(input=changed["input"], instructions=changed["instructions"])

        read = lambda: messages_of("responses", body)  # noqa: E731
        return await asyncio.to_thread(self._run.hinted, given, read, put, tools=self._tools, whole=whole)

    async def on_agent_start(self, context: Any, agent: Agent[Any]) -> None:
        """Read the agent's tools."""
        self._agent = agent
        self._tools = None
        with fail_open("has unknown tools"):
            wrapper = context if isinstance(context, RunContextWrapper) else RunContextWrapper(context)
            tools = [tool.name for tool in await agent.get_all_tools(cast(Any, wrapper))]
            handoffs = [
                one.tool_name if isinstance(one, Handoff) else Handoff.default_tool_name(one) for one in agent.handoffs
            ]
            self._tools = [*tools, *handoffs]

    async def on_llm_end(self, context: Any, agent: Agent[Any], response: Any) -> None:
        """Record the model's reply."""
        if self._agent is None or agent is self._agent:
            self._run.replied(lambda: messages_of("responses", {"input": response.to_input_items()}))

    async def on_tool_start(self, context: Any, agent: Agent[Any], tool: Any) -> None:
        """Connect a call with its span, which has its error."""
        span = get_current_span()
        id = getattr(context, "tool_call_id", "")
        if span is not None and id:
            _failures().calls[span.span_id] = self._run, id

    async def on_tool_end(self, context: Any, agent: Agent[Any], tool: Any, result: object) -> None:
        """Record a result."""
        id = getattr(context, "tool_call_id", "")
        if id:
            self._run.called(id, result, error=None)


class _Failures(TracingProcessor):
    """Notes which tool calls failed: the SDK's hooks do not say it."""

    def __init__(self) -> None:
        self.calls: dict[str, tuple[AgentRun, str]] = {}

    def on_span_end(self, span: Span[Any]) -> None:
        run, id = self.calls.pop(span.span_id, (None, ""))
        if run is not None:
            error = span.error
            run.failed(id, None if error is None else str((error.get("data") or {}).get("error") or error["message"]))

    def on_span_start(self, span: Span[Any]) -> None: ...
    def on_trace_start(self, trace: Trace) -> None: ...
    def on_trace_end(self, trace: Trace) -> None: ...
    def shutdown(self) -> None: ...
    def force_flush(self) -> None: ...


@cache
def _failures() -> _Failures:
    """Those of the process; the SDK passes it all spans from the first call on."""
    failures = _Failures()
    add_trace_processor(failures)
    return failures
