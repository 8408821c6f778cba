"""Rollouts over any environment: the stream of tokens only grows, so that a trainer gets one row and one mask of each.

In `hepm.agents.loop` a hint is part of one request. Here it stays, at the end of the message of the user or the tool
that it followed, as what was sampled after it was sampled with it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Literal, TypeAlias

from hepm.lab.environments import Environment, Schema, Task
from hepm.lab.rl.dialect import Dialect, Framed
from hepm.lab.rl.formats import Sampled, Tags, ToolCalls
from hepm.lab.rl.guidance import Guidance, Guided
from hepm.lab.rl.spans import SpanKind, TokenSpan
from hepm.text import disarmed
from hepm.types import Object, Turn

Generate: TypeAlias = Callable[[list[list[int]]], Sequence[Sampled]]
"""The next message of the model after each of these streams of tokens."""
Ended: TypeAlias = Literal["answered", "turns", "tokens", "cut"]
"""How a rollout ended: "answered" if the environment ended it; "cut" if the model did not end its last message."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A rollout to make: the task, its index in the group of rollouts of this task, and whether it is for training.

    In evaluation there are no hints, and nothing is learned.
    """

    task: Task
    index: int = 0
    training: bool = True


@dataclass(frozen=True, slots=True)
class Rollout:
    """A finished rollout.

    Attributes:
        reward: The environment's, in [0, 1].
        guided: Whether it could get hints; the turns say where it did.
    """

    attempt: Attempt
    spans: tuple[TokenSpan, ...]
    turns: tuple[Turn, ...]
    tools: tuple[Schema, ...]
    reward: float
    guided: bool
    ended: Ended


@dataclass(frozen=True, kw_only=True)
class Player:
    """Makes rollouts.

    Attributes:
        guidance: None for plain rollouts.
        format: How the model acts.
        max_tokens: Of the stream before a message of the model.
    """

    environment: Environment
    dialect: Dialect
    guidance: Guidance | None = None
    format: ToolCalls | Tags = field(default_factory=ToolCalls)
    max_turns: int = 30
    max_tokens: int = 16_000

    def play(self, attempts: Sequence[Attempt], generate: Generate) -> list[Rollout]:
        """Make rollouts side by side: each call of `generate` is for all that wait for the model."""
        runs = [_Stream(self, attempt).rollout() for attempt in attempts]
        ended: dict[int, Rollout] = {}
        try:
            # The streams of tokens that wait for the model, by the index of their attempt.
            waiting = {index: next(run) for index, run in enumerate(runs)}
            while waiting:
                for index, sampled in zip(list(waiting), generate(list(waiting.values())), strict=True):
                    try:
                        waiting[index] = runs[index].send(sampled)
                    except StopIteration as stop:
                        ended[index] = stop.value
                        del waiting[index]
        finally:
            # Also after an exception: an episode may hold a process of its own.
            for run in runs:
                run.close()
        return [ended[index] for index in range(len(runs))]


class _Stream:
    """A rollout under way."""

    def __init__(self, player: Player, attempt: Attempt) -> None:
        self.player = player
        self.attempt = attempt
        self.guidance = player.guidance
        if self.guidance and not (attempt.training and self.guidance.guides(attempt.index)):
            self.guidance = None
        self.spans: list[TokenSpan] = []
        self.turns: list[Turn] = []
        self.hint = Guided()  # the hint that the next message of the model will have read

    def rollout(self) -> Generator[list[int], Sampled, Rollout]:
        """Yields the stream of tokens wherever the model is to write, takes what it wrote, returns the rollout."""
        self.episode = self.player.environment.start(self.attempt.task)
        try:
            ended = yield from self._converse()
            return Rollout(
                self.attempt,
                tuple(self.spans),
                tuple(self.turns),
                tuple(self.episode.tools),
                float(self.episode.reward()),
                self.guidance is not None,
                ended,
            )
        finally:
            self.episode.close()

    def _converse(self) -> Generator[list[int], Sampled, Ended]:
        """See `rollout`; returns how it ended."""
        self._open()
        for turn in range(1, self.player.max_turns + 1):
            sampled = yield self._tokens()
            acted = self.player.format.act(sampled, self.player.dialect, self.episode, self.turns)
            self.spans += acted.wrote
            self.turns.append(replace(acted.turn, hinted=self.hint.tools))
            if acted.cut:
                return "cut"
            messages, kind = acted.messages, acted.by
            if acted.answer is not None:
                user_text = self.episode.answer(acted.answer)
                if user_text is None:
                    return "answered"
                self.turns.append(Turn("user", user_text))
                messages, kind = [{"role": "user", "content": disarmed(user_text)}], "user"
            if turn == self.player.max_turns:
                break  # trainers take a row that ends in a result for a message that was cut
            framed = self.player.dialect.following(messages)
            # Without the hint that memory may add.
            recalled = self.player.dialect.encode(acted.recalled)
            length = len(self._tokens()) + len(framed.before) + len(recalled) + len(framed.after)
            if length > self.player.max_tokens:
                return "tokens"
            self._add_messages(framed, kind, recalled)
        return "turns"

    def _tokens(self) -> list[int]:
        """The stream so far."""
        return [*chain.from_iterable(span.ids for span in self.spans)]

    def _open(self) -> None:
        """The rules, the tools and the user's request."""
        task = self.attempt.task
        # Where a model plays the user, it begins: an empty answer asks for its first message.
        request = task.request or self.episode.answer("") or ""
        self.turns.append(Turn("user", request))
        system, tools = self.player.format.opening(task.system, self.episode.tools)
        messages: list[Object] = []
        if system:
            messages.append({"role": "system", "content": system})
        messages.append({"role": "user", "content": disarmed(request)})
        self._add_messages(self.player.dialect.opening(messages, tools), "user")

    def _add_messages(self, framed: Framed, kind: SpanKind, recalled: Sequence[int] = ()) -> None:
        """Add messages, and what memory says at the end of the last one."""
        self.hint = Guided()
        if self.guidance is not None:
            tools = [tool["function"]["name"] for tool in self.episode.tools]
            self.hint = self.guidance.hint(self.turns, tools, self.attempt.task.id, self.attempt.index)
        hint = self.player.dialect.encode(f"\n\n{self.hint.text}") if self.hint.text else ()
        self.spans.append(TokenSpan(kind, tuple(framed.before)))
        # Spans of their own, so that they can stay out of the loss.
        for added in (recalled, hint):
            if added:
                self.spans.append(TokenSpan("hint", tuple(added)))
        self.spans.append(TokenSpan(kind, tuple(framed.after)))
