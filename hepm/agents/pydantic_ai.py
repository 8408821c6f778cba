"""Memory for agents of pydantic-ai: `Agent(model, capabilities=[HepmCapability(memory)])`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import (
    BaseToolCallPart,
    BaseToolReturnPart,
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.run import AgentRunResult

from hepm.agents.adapter import AgentRun, Verdict, fail_open, tool_result
from hepm.agents.wire import Object
from hepm.memory import Memory
from hepm.memory.session import Session


class HepmCapability(AbstractCapability[Any]):
    """Gives the agent hints before each call of its model, and records its runs.

    A run is stored at its end under its `conversation_id`, with the messages of `message_history` before its own.

    Args:
        source: A memory, which stores each run at its end. Or the session of one run, which you finish.
        outcome: Called with the result: whether the run succeeded, or its reward. Without it a run is stored without a
            label, and `Memory.label` sets it.
        about: Further arguments of `Memory.session`: task, user, environment, namespace.
    """

    def __init__(
        self,
        source: Memory | Session,
        *,
        outcome: Callable[[AgentRunResult[Any]], Verdict] = lambda result: None,
        **about: Any,
    ) -> None:
        self._source = source
        self._outcome = outcome
        self._about = about
        self._run: AgentRun | None = None

    async def for_run(self, ctx: RunContext[Any]) -> HepmCapability:
        """The same with a run of its own."""
        own = HepmCapability(self._source, outcome=self._outcome, **self._about)
        own._run = AgentRun(self._source, id=ctx.conversation_id or "", **self._about)
        return own

    async def wrap_run(self, ctx: RunContext[Any], *, handler: Any) -> AgentRunResult[Any]:
        """Store the run when it ends, however it ends."""
        verdict: Callable[[], Verdict] = lambda: None  # noqa: E731
        try:
            result = await handler()
            verdict = partial(self._outcome, result)
            return result
        finally:
            if self._run is not None:
                await asyncio.to_thread(self._run.finish, verdict)

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Add a hint to this request. The history does not keep it."""
        if self._run is None:
            return request_context
        messages, given = request_context.messages, request_context.model_request_parameters
        tools = [tool.name for tool in (*given.function_tools, *given.output_tools)]
        instructions = given.instruction_parts or []
        said = [{"role": "system", "content": part.content} for part in instructions]
        stable, present = await asyncio.to_thread(self._run.hint, lambda: [*said, *_chat(messages)], tools=tools)
        with fail_open("goes on without a hint"):
            if stable:
                # At the end of the last part: each is a system message, and some templates allow only one.
                *before, last = instructions or [InstructionPart(content="")]
                last = replace(last, content=f"{last.content}\n\n{stable}".strip())
                given = replace(given, instruction_parts=[*before, last])
            return replace(request_context, messages=_with_text(messages, present), model_request_parameters=given)
        return request_context

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """Record the model's reply."""
        if self._run is not None:
            self._run.replied(lambda: list(_chat([response])))
        return response

    async def wrap_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: Any, args: Any, handler: Any
    ) -> Any:
        """Call a tool, and record whether it failed."""
        try:
            result = await handler(args)
        except Exception as error:
            self._called(call, error, error=True)
            raise
        self._called(call, result, error=False)
        return result

    def _called(self, call: ToolCallPart, result: object, *, error: bool) -> None:
        if self._run is not None:
            self._run.called(call.tool_call_id, result, error=error)


def _with_text(messages: Sequence[ModelMessage], text: str) -> list[ModelMessage]:
    """Messages with a text at the end of the last request."""
    last = messages[-1] if messages else None
    if not text or not isinstance(last, ModelRequest):
        return list(messages)
    part = last.parts[-1] if last.parts else None
    if isinstance(part, UserPromptPart | BaseToolReturnPart) and isinstance(part.content, str):
        parts = [*last.parts[:-1], replace(part, content=f"{part.content}\n\n{text}")]
    else:
        parts = [*last.parts, UserPromptPart(text)]
    return [*messages[:-1], replace(last, parts=parts)]


def _chat(messages: Iterable[ModelMessage]) -> Iterator[Object]:
    """OpenAI chat messages; each result with whether its call failed."""
    for message in messages:
        if isinstance(message, ModelResponse):
            calls = [part for part in message.parts if isinstance(part, BaseToolCallPart)]
            issued = [
                {"id": one.tool_call_id, "function": {"name": one.tool_name, "arguments": one.args_as_json_str()}}
                for one in calls
            ]
            text = "".join(part.content for part in message.parts if isinstance(part, TextPart))
            yield {"role": "assistant", "content": text} | ({"tool_calls": issued} if issued else {})
        for part in message.parts:
            if isinstance(part, BaseToolReturnPart):
                yield tool_result(part.tool_call_id, part.model_response_str(), error=part.outcome != "success")
            elif isinstance(part, SystemPromptPart | UserPromptPart):
                texts = [part.content] if isinstance(part.content, str) else part.content
                role = "system" if isinstance(part, SystemPromptPart) else "user"
                yield {"role": role, "content": "\n".join(text for text in texts if isinstance(text, str))}
            elif part.part_kind in ("retry-prompt", "retry-feedback"):  # the first one goes with version 3
                retry = cast(Any, part)
                if getattr(retry, "tool_name", None):
                    yield tool_result(retry.tool_call_id, retry.model_response(), error=True)
                else:
                    yield {"role": "user", "content": str(retry.content)}
