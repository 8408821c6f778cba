"""Memory for agents of pydantic-ai: `Agent(model, capabilities=[HepmCapability(memory)])`."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from pydantic_ai import ApprovalRequired, CallDeferred, ModelMessagesTypeAdapter, RunContext, messages
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.run import AgentRunResult

from hepm.agents.adapter import AgentRuns, Source, Verdict
from hepm.agents.wire import appended, without_foreign_hint
from hepm.ingest.formats.message_layouts import chat_messages
from hepm.types import Objects


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
        self, source: Source, *, outcome: Callable[[AgentRunResult[Any]], Verdict] | None = None, **about: Any
    ) -> None:
        self._outcome = outcome
        self._runs = AgentRuns(source, **about)
        self._run = self._runs.new("")

    async def for_run(self, ctx: RunContext[Any]) -> HepmCapability:
        """The same with a run of its own."""
        own = copy(self)
        own._run = self._runs.new(ctx.conversation_id or "")
        return own

    async def wrap_run(self, ctx: RunContext[Any], *, handler: Any) -> AgentRunResult[Any]:
        """Store the run when it ends, however it ends."""
        try:
            result = await handler()
        except BaseException:
            await to_thread(self._runs.end, self._run)
            raise
        await to_thread(self._runs.end, self._run, self._outcome, result)
        return result

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Add a hint to this request. The history does not keep it."""
        said = request_context.messages
        given = request_context.model_request_parameters
        tools = [tool.name for tool in (*given.function_tools, *given.output_tools)]
        instructions = given.instruction_parts or []
        system = [{"role": "system", "content": part.content} for part in instructions]

        def put(stable: str, present: str) -> ModelRequestContext:
            # At the end of the last part: each is a system message, and some templates allow only one.
            *before, last = instructions or [messages.InstructionPart(content="")]
            parts = instructions
            if stable:
                parts = [*before, replace(last, content=appended(last.content, stable))]
            parameters = replace(given, instruction_parts=parts)
            return replace(request_context, messages=_with_text(said, present), model_request_parameters=parameters)

        read = lambda: [*system, *_chat(said)]  # noqa: E731
        return await to_thread(self._run.hinted, request_context, read, put, tools=tools)

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: messages.ModelResponse
    ) -> messages.ModelResponse:
        """Record the model's reply."""
        self._run.replied(lambda: _chat([response]))
        return response

    async def wrap_tool_execute(
        self, ctx: RunContext[Any], *, call: messages.ToolCallPart, tool_def: Any, args: Any, handler: Any
    ) -> Any:
        """Call a tool, and record whether it failed; one that memory denies is not called."""
        denied = await to_thread(self._run.denied, call.tool_call_id, call.tool_name, call.args_as_dict())
        if denied:
            return denied
        with self._run.calling(call.tool_call_id, interrupts=(CallDeferred, ApprovalRequired)):
            result = await handler(args)
        self._run.called(call.tool_call_id, result, error=False)
        return result


def _with_text(said: Sequence[messages.ModelMessage], text: str) -> list[messages.ModelMessage]:
    """Messages with a text at the end of the last request: of the user's prompt, or a prompt of its own."""
    *before, last = map(_without_foreign_hints, said)
    if not text or not isinstance(last, messages.ModelRequest):
        return [*before, last]
    *parts, part = last.parts
    if isinstance(part, messages.UserPromptPart) and isinstance(part.content, str):
        parts.append(replace(part, content=appended(part.content, text)))
    else:
        parts += [part, messages.UserPromptPart(text)]
    return [*before, replace(last, parts=parts)]


def _without_foreign_hints(message: messages.ModelMessage) -> messages.ModelMessage:
    if not isinstance(message, messages.ModelRequest):
        return message
    parts: list[Any] = []
    for part in message.parts:
        content: Any = getattr(part, "content", None)
        if content is None or isinstance(part, messages.SystemPromptPart):
            parts.append(part)
        else:
            parts.append(replace(part, content=without_foreign_hint(content)))
    return replace(message, parts=parts)


def _chat(said: Sequence[messages.ModelMessage]) -> Objects:
    """OpenAI chat messages; each result with whether its call failed."""
    return chat_messages(ModelMessagesTypeAdapter.dump_python(list(said), warnings=False))
