"""Agents that learn online: each run is hinted by what those before it left in memory, and stored when it ends."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from hepm import Memory
from hepm.experience.prompt import Prompt, PromptOptions
from hepm.memory.session import Session
from hepm.types import Suggestions

from .agents import Agent, Message, Run, run, silent
from .world import World

PLAIN: Mapping[str, Any] = {"distill": False, "prompt_options": PromptOptions(experiences=0, principles=0)}
"""A session without lessons."""


def everything(prompt: Prompt) -> Suggestions:
    return prompt.suggestions


def hints_alone(prompt: Prompt) -> Suggestions:
    return replace(prompt.suggestions, warnings=())


def nothing(prompt: Prompt) -> Suggestions:
    return Suggestions()


def warnings_alone(prompt: Prompt) -> Suggestions:
    return replace(prompt.suggestions, ranked=())


@dataclass(frozen=True, slots=True)
class Arm:
    """A way to use memory.

    Attributes:
        opened, session: Keywords of `Memory.open` and of `Memory.session`.
        hears: What of a prompt reaches the agent.
        policy: Asked by itself, without a prompt and the guard; None for the session's prompt.
    """

    name: str
    opened: Mapping[str, Any] = field(default_factory=dict[str, Any])
    session: Mapping[str, Any] = field(default_factory=lambda: PLAIN)
    hears: Callable[[Prompt], Suggestions] = everything
    policy: str | None = None

    def advice(
        self, memory: Memory, session: Session, messages: Sequence[Message], world: World, *, keep: bool = True
    ) -> Suggestions:
        """What an agent hears in a session."""
        if self.policy is not None:
            return memory.suggest(messages=messages, tools=world.tools, policy=self.policy)
        return self.hears(session.prompt(messages, keep=keep))


NONE = Arm("none")
"""Without memory."""
ARMS = {
    arm.name: arm
    for arm in (
        NONE,
        Arm("warnings", hears=warnings_alone),
        Arm("hints", hears=hints_alone),
        Arm("sure"),
        Arm("weighed", opened={"speak": "weighed"}),
        Arm("lessons", session={}),
        Arm("unguarded", policy="hybrid"),
        Arm("deny", opened={"deny": True}),
        Arm("deny alone", opened={"deny": True}, hears=nothing),
    )
}
"""Warnings alone, hints alone, both as the guard draws them, both as for agents that weigh; both with what the lessons
of the same runs advise; both without the guard; both with denied calls, and these alone."""


@contextmanager
def empty_memory(**opened: Any) -> Iterator[Memory]:
    with tempfile.TemporaryDirectory(prefix="hepm-worlds-") as folder, Memory.open(folder, **opened) as memory:
        yield memory


def learn_online(world: World, agent: Agent, arm: Arm, *, runs: int, seed: int, live: bool = False) -> list[Run]:
    """The runs in order, from an empty memory.

    Args:
        live: Add each run to what is known, as a server does, in place of learning all anew.
    """
    tasks = [world.task(f"{seed}/{number}") for number in range(runs)]
    if arm is NONE:
        return [run(world, task, agent, silent) for task in tasks]
    found: list[Run] = []
    with empty_memory(**arm.opened) as memory:
        for task in tasks:
            session = memory.session(id=task.id, environment=world.name, tools=world.tools, **arm.session)

            def advise(messages: Sequence[Message], session: Session = session) -> Suggestions:
                return arm.advice(memory, session, messages, world)

            ended = run(world, task, agent, advise, deny=session.denial)
            session.finish(success=ended.label, messages=ended.messages)
            if live:
                memory.follow_now()
            else:
                settle(memory)
            found.append(ended)
    return found


def settle(memory: Memory) -> None:
    """Wait for what works in the background, so that the next hint does not depend on the machine's speed."""
    memory.sessions.wait_distilled()
    memory.refresh()
