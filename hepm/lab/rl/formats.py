"""How a model acts in a rollout: by tool calls (H-EPM), or by tags in its text (EvolveR)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from hepm.agents.tagged import NO_FLOOR, TaggedAction, observe, principles_text, read_action, tag_instructions
from hepm.agents.wire import parsed
from hepm.ingest.fields import is_object
from hepm.lab.environments import Episode, Schema, ToolFailed, tool_schema
from hepm.lab.rl.dialect import Dialect, ModelReply
from hepm.lab.rl.spans import SpanKind, TokenSpan
from hepm.memory import Memory
from hepm.text import disarmed
from hepm.types import DEFAULT_NAMESPACE, START, SUMMARY_TOOL, Object, ToolCall, Turn

SUMMARY: Final = tool_schema(
    SUMMARY_TOOL,
    "Note the state of the task: what the user wants, what the tools returned, what is still open.",
    {"summary": {"type": "string"}},
)
_IMPLICIT: Final = (
    f"Call {SUMMARY_TOOL}, and nothing beside it, whenever what you have learned should decide your next step, and at "
    "least once in each task."
)


class Sampled(NamedTuple):
    """Tokens that a model sampled, its end of message included, and their log-probabilities if they are known."""

    ids: Sequence[int]
    logprobs: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Acted:
    """What came of a message of the model.

    Attributes:
        wrote: The message in the stream of tokens.
        turn: The message in the record, with what was called.
        answer: What the user reads; None if it acted, or was cut.
        messages: What comes back of its actions, as messages of the conversation, written by `by`.
        recalled: What memory answered, at the end of the last of them: tokens of its own, so that these alone can be
            absorbed.
        cut: Whether it was cut by the limit of tokens: an action may be half written.
    """

    wrote: Sequence[TokenSpan]
    turn: Turn
    answer: str | None = None
    messages: Sequence[Object] = ()
    by: SpanKind = "tool"
    recalled: str = ""
    cut: bool = False


@dataclass(frozen=True)
class ToolCalls:
    """The model calls tools, as its dialect writes calls.

    Attributes:
        summaries: Whether the summary tool is offered, with one instruction at the start (H-EPM C.4, "implicit").
    """

    summaries: bool = True

    def opening(self, system: str, tools: Sequence[Schema]) -> tuple[str, list[Schema]]:
        """The system prompt, and the tools that the chat template is to offer."""
        if not self.summaries:
            return system, [*tools]
        return f"{system}\n\n{_IMPLICIT}".strip(), [*tools, SUMMARY]

    def act(self, sampled: Sampled, dialect: Dialect, episode: Episode, turns: Sequence[Turn]) -> Acted:
        """Do what a message of the model says, after these turns."""
        del turns
        reply = dialect.read(sampled.ids)
        summary = self.summaries and SUMMARY_TOOL in [name for name, _ in reply.calls]
        wrote = [TokenSpan("summary" if summary else "model", tuple(sampled.ids), tuple(sampled.logprobs))]
        if not reply.whole:
            return Acted(wrote, Turn("assistant", reply.text), cut=True)
        calls = tuple(_call(episode, name, arguments, summary=summary) for name, arguments in reply.calls)
        turn = Turn("assistant", reply.text, calls)
        if not calls:
            return Acted(wrote, turn, answer=reply.text)
        # Disarmed, so that no tool can speak as memory does.
        results = [{"role": "tool", "name": call.name, "content": disarmed(call.result or "")} for call in calls]
        return Acted(wrote, turn, messages=results, by="summary" if summary else "tool")


@dataclass(frozen=True, kw_only=True)
class Tags:
    """The model acts by tags in its text (EvolveR 3.1; see `hepm.agents.tagged`), also in evaluation.

    What it wrote behind its first action is cut from the stream, and its end of message set there without loss. The
    parts of a message are spans of their own: "think", and the action.

    Attributes:
        memory: Answers searches of principles; None for an agent that cannot search them (EvolveR, table 3).
        environment: Whose principles are found; those that name no environment always are.
    """

    memory: Memory | None = None
    namespace: str = DEFAULT_NAMESPACE
    environment: str = ""

    def opening(self, system: str, tools: Sequence[Schema]) -> tuple[str, list[Schema]]:
        """See `ToolCalls`: tools are described in the system prompt, and none is offered."""
        return f"{system}\n\n{tag_instructions(tools, searches=self.memory is not None)}".strip(), []

    def act(self, sampled: Sampled, dialect: Dialect, episode: Episode, turns: Sequence[Turn]) -> Acted:
        """See `ToolCalls`."""
        reply = dialect.read(sampled.ids)
        action = read_action(reply.text)
        closed = len(action.text) <= len(reply.text)
        wrote = _parts(action, sampled, dialect, most=len(reply.text))
        # Without its closing tag, an action may be half written.
        if not reply.whole and not (action.name and closed):
            return Acted(wrote, Turn("assistant", reply.text), cut=True)
        if not reply.whole or len(action.text) < len(reply.text):
            wrote.append(TokenSpan("user", tuple(dialect.write(ModelReply("")))))
        if action.name == "answer":
            return Acted(wrote, Turn("assistant", action.text), answer=action.query)
        recalled: list[str] = []
        calls: list[ToolCall] = []

        def recall(query: str) -> str:
            assert self.memory is not None, "only an agent with a memory searches it"
            found = self.memory.principles.for_query(
                query, turns, namespace=self.namespace, environment=self.environment, floor=NO_FLOOR
            )
            recalled.extend(principle.id for principle in found)
            return principles_text(found)

        def call(name: str, arguments: str) -> str:
            calls.append(_call(episode, name, arguments))
            return calls[-1].result or ""

        text, by = observe(action, episode.tools, recall=None if self.memory is None else recall, call=call)
        if by == "tool":
            turn = Turn("assistant", action.text, tuple(calls))
            return Acted(wrote, turn, messages=[{"role": "user", "content": text}])
        turn = Turn("assistant", action.text, recalled=tuple(recalled), read=text)
        if by == "memory":
            return Acted(wrote, turn, messages=[{"role": "user", "content": ""}], by="user", recalled=text)
        return Acted(wrote, turn, messages=[{"role": "user", "content": text}], by="user")


def _parts(action: TaggedAction, sampled: Sampled, dialect: Dialect, *, most: int) -> list[TokenSpan]:
    """A message of so many characters as spans: its thought and its action, without what is behind it."""
    ids = sampled.ids

    def tokens_of(text: str) -> int:
        """The fewest tokens that say as much."""
        return bisect_left(range(len(ids)), len(text), key=lambda count: len(dialect.read(ids[:count]).text))

    # Line ends between the two are the action's: texts are read without those at their end.
    begin, end = tokens_of(action.text[: action.begin].rstrip()), len(ids)
    if len(action.text) < most:
        end = tokens_of(action.text)
    parts = (("think", slice(0, begin)), (action.name, slice(begin, end)))
    return [TokenSpan("model", tuple(ids[at]), tuple(sampled.logprobs[at]), part) for part, at in parts if ids[at]]


def _call(episode: Episode, name: str, text: str, *, summary: bool = False) -> ToolCall:
    """Call a tool as the model asks. What it may read of a failure is the result."""
    arguments = parsed(text or "{}")  # some models write nothing for a call without arguments
    # START is no tool of any environment: a call of that name would read as the beginning of a run in the graph.
    if not is_object(arguments) or not name.strip() or name == START:
        # The record names a call that names no tool.
        return ToolCall("unreadable_call", {}, "Error: the call is no JSON object with name and arguments", True)
    if summary:
        if name == SUMMARY_TOOL:
            return ToolCall(name, arguments, "Noted.", False)
        alone = f"Error: {SUMMARY_TOOL} is called alone. Call this tool in a message of its own."
        return ToolCall(name, arguments, alone, True)
    try:
        return ToolCall(name, arguments, str(episode.call(name, arguments)), False)
    except ToolFailed as failed:
        return ToolCall(name, arguments, f"Error: {failed}", True)
