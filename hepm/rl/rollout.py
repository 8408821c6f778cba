"""Rollouts over any environment: the stream of tokens only grows, so that a trainer gets one row and one mask of each.

In `hepm.agents.loop` a hint is part of one request. Here it stays, at the end of the message of the user or the tool
that it followed, as what was sampled after it was sampled with it.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

from hepm.evals.environments import Environment, Schema, Task, ToolFailed
from hepm.evals.environments import Episode as EnvironmentEpisode
from hepm.llm.dialect import Dialect, Framed
from hepm.rl.guidance import Guidance, Guided
from hepm.rl.spans import SpanKind, TokenSpan
from hepm.text import disarmed
from hepm.types import START, SUMMARY_TOOL, ToolCall, Turn

SUMMARY: Final[Schema] = {
    "type": "function",
    "function": {
        "name": SUMMARY_TOOL,
        "description": "Note the state of the task: what the user wants, what the tools returned, what is still open.",
        "parameters": {"type": "object", "properties": {"summary": {"type": "string"}}, "required": ["summary"]},
    },
}
_IMPLICIT: Final = (
    f"Call {SUMMARY_TOOL}, and nothing beside it, whenever what you have learned should decide your next step, and at "
    "least once in each task."
)
_UNREADABLE: Final = "unreadable_call"  # what the record names a call that names no tool
_ALONE: Final = f"Error: {SUMMARY_TOOL} is called alone. Call this tool in a message of its own."


class Sampled(NamedTuple):
    """Tokens that a model sampled, its end of message included, and their log-probabilities if they are known."""

    ids: Sequence[int]
    logprobs: Sequence[float] = ()


Generate: TypeAlias = Callable[[list[list[int]]], Sequence[Sampled]]
"""The next message of the model after each of these streams of tokens."""
GenerateAsync: TypeAlias = Callable[[list[int]], Awaitable[Sampled]]


@dataclass(frozen=True, slots=True)
class Attempt:
    """A rollout to make: the task, its index in the group of rollouts of this task, and whether it is for training.

    In evaluation there are no hints, and nothing is learned. `seed` is of the environment's state.
    """

    task: Task
    index: int = 0
    training: bool = True
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Rollout:
    """A finished rollout.

    Attributes:
        reward: The environment's, in [0, 1].
        guided: Whether it could get hints; the turns say where it did.
        ended: "answered" if the environment ended it; "cut" if the model did not end its last message.
    """

    attempt: Attempt
    spans: tuple[TokenSpan, ...]
    turns: tuple[Turn, ...]
    tools: tuple[Schema, ...]
    reward: float
    guided: bool
    ended: Literal["answered", "turns", "tokens", "cut"]

    @property
    def steps(self) -> int:
        """The agent's turns (n of H-EPM)."""
        return sum(turn.is_step for turn in self.turns)


@dataclass(frozen=True, kw_only=True)
class Player:
    """Makes rollouts.

    Attributes:
        guidance: None for plain rollouts.
        summaries: Whether the summary tool is offered, with one instruction at the start (H-EPM C.4, "implicit").
        max_tokens: Of the stream before a message of the model.
    """

    environment: Environment
    dialect: Dialect
    guidance: Guidance | None = None
    summaries: bool = True
    max_turns: int = 30
    max_tokens: int = 16_000

    def play(self, attempts: Sequence[Attempt], generate: Generate) -> list[Rollout]:
        """Make rollouts side by side: each call of `generate` is for all that wait for the model."""
        runs = [self._rollout(attempt) for attempt in attempts]
        ended: dict[int, Rollout] = {}
        try:
            waiting = {at: next(run) for at, run in enumerate(runs)}
            while waiting:
                replies = zip(list(waiting), generate(list(waiting.values())), strict=True)
                for at, sampled in replies:
                    try:
                        waiting[at] = runs[at].send(sampled)
                    except StopIteration as stop:
                        ended[at] = stop.value
                        del waiting[at]
        finally:
            for run in runs:
                run.close()
        return [ended[at] for at in range(len(runs))]

    async def play_async(self, attempt: Attempt, generate: GenerateAsync) -> Rollout:
        """Make one rollout."""
        with closing(self._rollout(attempt)) as run:
            stream = next(run)
            while True:
                sampled = await generate(stream)
                try:
                    stream = run.send(sampled)
                except StopIteration as stop:
                    return cast(Rollout, stop.value)

    def _rollout(self, attempt: Attempt) -> Generator[list[int], Sampled, Rollout]:
        """Yields the stream of tokens wherever the model is to write, takes what it wrote, returns the rollout."""
        episode = self.environment.start(attempt.task, seed=attempt.seed)
        try:
            return (yield from _Stream(self, attempt, episode).run())
        finally:
            episode.close()


class _Stream:
    """A rollout under way."""

    def __init__(self, player: Player, attempt: Attempt, episode: EnvironmentEpisode) -> None:
        self.player, self.attempt, self.episode = player, attempt, episode
        guidance = player.guidance
        self.guidance = guidance if guidance and attempt.training and guidance.guides(attempt.index) else None
        self.spans: list[TokenSpan] = []
        self.turns: list[Turn] = []
        self.hint = Guided()

    def run(self) -> Generator[list[int], Sampled, Rollout]:
        ended = yield from self._converse()
        made = tuple(self.spans), tuple(self.turns), tuple(self.episode.tools)
        return Rollout(self.attempt, *made, float(self.episode.reward()), self.guidance is not None, ended)

    def _converse(self) -> Generator[list[int], Sampled, Literal["answered", "turns", "tokens", "cut"]]:
        self._open()
        for turn in range(1, self.player.max_turns + 1):
            sampled = yield [token for span in self.spans for token in span.ids]
            reply = self.player.dialect.read(sampled.ids)
            summary = any(name == SUMMARY_TOOL for name, _ in reply.calls) and self.player.summaries
            self._add("summary" if summary else "model", sampled.ids, sampled.logprobs)
            if not reply.whole:
                self.turns.append(Turn("assistant", reply.text, hinted=self.hint.tools))
                return "cut"
            calls = tuple(self._call(name, arguments, summary=summary) for name, arguments in reply.calls)
            self.turns.append(Turn("assistant", reply.text, calls, hinted=self.hint.tools))
            if calls:
                kind: SpanKind = "summary" if summary else "tool"
                heard = [{"role": "tool", "name": call.name, "content": disarmed(call.result or "")} for call in calls]
            else:
                kind, said = "user", self.episode.answer(reply.text)
                if said is None:
                    return "answered"
                heard = [{"role": "user", "content": disarmed(said)}]
                self.turns.append(Turn("user", said))
            if turn == self.player.max_turns:
                break  # trainers take a row that ends in a result for a message that was cut
            framed = self.player.dialect.following(heard)
            length = sum(len(span.ids) for span in self.spans) + len(framed.before) + len(framed.after)
            if length > self.player.max_tokens:
                return "tokens"
            self._hear(framed, kind)
        return "turns"

    def _open(self) -> None:
        task = self.attempt.task
        request = task.request or self.episode.answer("") or ""  # where a model plays the user, it begins
        self.turns.append(Turn("user", request))
        system = "\n\n".join(filter(None, (task.system, _IMPLICIT if self.player.summaries else "")))
        messages = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": disarmed(request)})
        tools = [*self.episode.tools, *([SUMMARY] if self.player.summaries else [])]
        self._hear(self.player.dialect.opening(messages, tools), "user")

    def _hear(self, framed: Framed, kind: SpanKind) -> None:
        """Add messages, and what memory says at the end of the last one."""
        self.hint = Guided()
        if self.guidance is not None:
            tools = [tool["function"]["name"] for tool in self.episode.tools]
            self.hint = self.guidance.hint(self.turns, tools, self.attempt.task.id, self.attempt.index)
        self._add(kind, framed.before)
        if self.hint.text:
            self._add("hint", self.player.dialect.encode(f"\n\n{self.hint.text}"))
        self._add(kind, framed.after)

    def _add(self, kind: SpanKind, ids: Sequence[int], logprobs: Sequence[float] = ()) -> None:
        self.spans.append(TokenSpan(kind, tuple(ids), tuple(logprobs)))

    def _call(self, name: str, text: str, *, summary: bool) -> ToolCall:
        """Call a tool as the model asks. What it may read of a failure is the result."""
        arguments = _arguments(text)
        if arguments is None or not name.strip() or name == START:
            return ToolCall(_UNREADABLE, {}, "Error: the call is no JSON object with name and arguments", True)
        if summary:
            own = name == SUMMARY_TOOL
            return ToolCall(name, arguments, "Noted." if own else _ALONE, not own)
        try:
            return ToolCall(name, arguments, str(self.episode.call(name, arguments)), False)
        except ToolFailed as failed:
            return ToolCall(name, arguments, f"Error: {failed}", True)


def _arguments(text: str) -> dict[str, Any] | None:
    try:
        arguments = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", arguments) if isinstance(arguments, dict) else None
