"""Rollouts: the stream of tokens, what stays in it, and how a rollout ends."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from hepm import Memory
from hepm.lab.environments import Environment, Schema, Task
from hepm.lab.environments.functions import HiddenFunctions
from hepm.lab.rl.dialect import Framed, ModelReply
from hepm.lab.rl.guidance import Guidance
from hepm.lab.rl.rollout import Attempt, Player, Sampled
from hepm.lab.rl.spans import row_of
from hepm.types import SUMMARY_TOOL
from tests.lab.rl.playing import WORDS, desk, remembering, solving, written


def first(environment: Environment) -> Task:
    return environment.tasks()[0]


def test_every_stream_continues_the_one_before():
    environment = desk()
    task, streams = first(environment), list[list[int]]()

    def generate(asked: list[list[int]]) -> Sequence[Sampled]:
        streams.extend(asked)
        return solving(environment, task.id)(asked)

    (rollout,) = Player(environment=environment, dialect=WORDS).play([Attempt(task)], generate)
    assert rollout.reward == 1
    assert rollout.ended == "answered"
    assert all(later[: len(stream)] == stream for stream, later in itertools.pairwise(streams))
    row = row_of(rollout.spans)
    assert [*row.prompt, *row.completion][: len(streams[-1])] == streams[-1]


def test_a_summary_and_its_result_are_one_part_that_discard_leaves_out(tmp_path: Any):
    environment = desk()
    task = first(environment)
    player = Player(environment=environment, dialect=WORDS)
    (rollout,) = player.play([Attempt(task)], solving(environment, task.id, summarise=True))
    (plain,) = player.play([Attempt(task)], solving(environment, task.id))
    assert rollout.reward == plain.reward == 1
    kinds = [span.kind for span in rollout.spans]
    assert kinds.count("summary") == 3  # the call, and both sides of the place of a hint
    assert [call.name for turn in rollout.turns for call in turn.calls].count(SUMMARY_TOOL) == 1
    assert row_of(rollout.spans, added="discard") == row_of(plain.spans)


def test_a_hint_stays_at_the_end_of_the_message_and_without_hints_the_row_is_that_of_a_plain_rollout(tmp_path: Any):
    environment = desk()
    task = first(environment)
    with Memory.open(tmp_path / "m.hepm") as memory:
        guidance = Guidance(memory=remembering(memory, environment), policy="adaptive", p_skip=0)
        player = Player(environment=environment, dialect=WORDS, guidance=guidance)
        (rollout,) = player.play([Attempt(task)], solving(environment, task.id))
    (plain,) = Player(environment=environment, dialect=WORDS).play([Attempt(task)], solving(environment, task.id))
    at = next(at for at, span in enumerate(rollout.spans) if span.kind == "hint")
    assert rollout.spans[at - 1].kind == rollout.spans[at + 1].kind
    assert WORDS.words[rollout.spans[at].ids[0]] == "<hepm-memory>"
    assert row_of(rollout.spans, added="discard") == row_of(plain.spans)
    assert len(row_of(rollout.spans).completion) > len(row_of(plain.spans).completion)
    hinted = [turn for turn in rollout.turns if turn.hinted]
    assert hinted
    assert all(turn.role == "assistant" for turn in hinted)
    assert all("hepm-memory" not in turn.text for turn in rollout.turns)


@pytest.mark.parametrize(
    ("limits", "ended"), [({"max_turns": 2}, "turns"), ({"max_tokens": 12}, "tokens")], ids=["turns", "tokens"]
)
def test_a_rollout_that_reaches_a_limit_ends_with_a_message_of_the_model(limits: dict[str, int], ended: str):
    environment = desk()
    tool = environment.desk.tools[0]
    player = Player(environment=environment, dialect=WORDS, **limits)  # pyright: ignore
    (rollout,) = player.play([Attempt(first(environment))], lambda streams: [written(tool)] * len(streams))
    assert rollout.ended == ended
    assert rollout.spans[-1].kind == "model"
    assert rollout.reward == 0


def test_a_message_without_its_end_ends_the_rollout_and_calls_nothing():
    environment = desk()
    tool = WORDS.ids[environment.desk.tools[0]]
    player = Player(environment=environment, dialect=WORDS)
    (rollout,) = player.play([Attempt(first(environment))], lambda streams: [Sampled([tool])])
    assert rollout.ended == "cut"
    assert not [call for turn in rollout.turns for call in turn.calls]


class Scripted:
    """A dialect whose model writes what it is given, and whose messages are letters."""

    def __init__(self, *replies: ModelReply) -> None:
        self.replies, self.heard = list(replies), list[str]()

    def opening(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Schema]) -> Framed:
        return self.following(messages)

    def following(self, messages: Sequence[Mapping[str, Any]]) -> Framed:
        self.heard += [message["content"] for message in messages]
        return Framed([1], [2])

    def encode(self, text: str) -> Sequence[int]:
        return [3] * len(text)

    def read(self, ids: Sequence[int]) -> ModelReply:
        return self.replies.pop(0)

    def write(self, reply: ModelReply) -> Sequence[int]:
        return [4]


def heard(*replies: ModelReply) -> list[str]:
    """What a model hears after each of these messages, in the environment of functions."""
    dialect = Scripted(*replies, ModelReply("the end"))
    player = Player(environment=HiddenFunctions(), dialect=dialect)
    player.play([Attempt(first(HiddenFunctions()))], lambda streams: [Sampled([5])])
    return dialect.heard[2:]


def test_a_call_that_cannot_be_read_and_one_that_fails_are_answered():
    (unread,) = heard(ModelReply("", [("", "{broken")]))
    assert unread.startswith("Error: the call is no JSON")
    (listed,) = heard(ModelReply("", [("evaluate", "[1]")]))
    assert listed.startswith("Error: the call is no JSON")
    (unknown,) = heard(ModelReply("", [("no_such_tool", "{}")]))
    assert unknown == "Error: no action is called no_such_tool; there are evaluate, show_test_input, submit"
    (start,) = heard(ModelReply("", [("<START>", "{}")]))
    assert start.startswith("Error: ")


def test_beside_a_summary_other_calls_are_refused():
    noted, refused = heard(ModelReply("", [(SUMMARY_TOOL, '{"summary": "so far"}'), ("show_test_input", "{}")]))
    assert noted == "Noted."
    assert refused.startswith(f"Error: {SUMMARY_TOOL} is called alone")


def test_an_episode_is_closed_when_the_model_breaks_off():
    closed: list[bool] = []

    class Watched(HiddenFunctions):
        def start(self, task: Task, *, seed: int = 0) -> Any:
            episode = super().start(task, seed=seed)
            episode.close = lambda: closed.append(True)  # type: ignore[method-assign]
            return episode

    def broken(streams: list[list[int]]) -> Sequence[Sampled]:
        raise RuntimeError("out of memory")

    player = Player(environment=Watched(), dialect=Scripted())
    with pytest.raises(RuntimeError, match="out of memory"):
        player.play([Attempt(first(Watched()))] * 2, broken)
    assert closed == [True, True]
