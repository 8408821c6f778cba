"""Agents: what they do by themselves, and what hints and warnings make them do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, NamedTuple

from hepm.memory.denial import Denial
from hepm.types import END, Suggestions, ToolName

from .world import Message, Progress, Task, World

Advise = Callable[[Sequence[Message]], Suggestions]
"""What an agent hears about its run so far."""
Deny = Callable[[ToolName], Denial | None]
"""Why a call of it is not made."""


@dataclass(frozen=True, slots=True)
class Agent:
    """Does what is right with probability `skill`, but where it has a habit.

    Attributes:
        habits: Whether it makes its habitual call at each branch in a share of runs.
        manner: "obeys" takes the first named tool; "weighs" does so if the stated chance exceeds `skill`.
        obedience: The share of turns in which an agent that obeys does.
        heed: The share of warned calls that it thinks over, or takes what the warning says that worked.
        detours: The share of its turns in which it looks something up that nobody needs, instead.
    """

    name: str
    skill: float = 0.9
    habits: bool = False
    manner: Literal["obeys", "weighs"] = "obeys"
    obedience: float = 1.0
    heed: float = 0.8
    detours: float = 0.0

    def act(self, progress: Progress, advice: Suggestions, random: Random) -> tuple[ToolName, ...]:
        """The calls of its next turn. A turn takes the same draws whatever it hears."""
        obeys, heeds = random.random() < self.obedience, random.random() < self.heed
        chosen = self._own_calls(progress, random, habits=self.habits)
        thought_over = self._own_calls(progress, random, habits=False)
        if self.detours and random.random() < self.detours:
            chosen = (random.choice(sorted(progress.world.lookups)),)
        if advice and self._follows(advice, obeys):
            return chosen if advice[0].tool in chosen else (advice[0].tool,)
        if advice.done and (obeys if self.manner == "obeys" else advice.done > self.skill):
            return (END,)
        warned = {way.tool for way in advice.warnings}
        if not heeds or warned.isdisjoint(chosen):
            return chosen
        better = [way.instead for way in advice.warnings if way.tool in chosen and way.instead]
        if better:
            return (better[0],)
        if warned.isdisjoint(thought_over):
            return thought_over
        others = [tool for tool in progress.world.tools if tool not in warned]
        return (random.choice(others),)

    def _follows(self, advice: Suggestions, obeys: bool) -> bool:
        return obeys if self.manner == "obeys" else advice[0].score > self.skill

    def _own_calls(self, progress: Progress, random: Random, *, habits: bool) -> tuple[ToolName, ...]:
        """The calls that it would make without advice."""
        step, draws = progress.step, [random.random() for _ in range(3)]
        other = random.choice([*progress.world.tools, END])
        if progress.failed:  # it does not know, and goes on as if all were well
            return step.calls[:1]
        if habits and step.habit and draws[0] < step.share:
            return (step.habit,)
        if draws[1] < self.skill:
            return step.calls if step.together else step.calls[:1]
        return (step.habit if step.habit and draws[2] < 0.5 else other,)


class Heard(NamedTuple):
    """What an agent heard before one of its turns, after so many calls, and what would have been right.

    `named` is `END` if it heard that nothing is left to call, `instead` what its warnings say that worked; "" without.
    """

    branch: str
    right: frozenset[ToolName]
    named: ToolName
    chance: float
    warned: tuple[ToolName, ...]
    instead: ToolName
    calls: int


@dataclass(frozen=True, slots=True)
class Run:
    """How a run went."""

    task: Task
    messages: list[Message]
    called: list[ToolName]
    success: bool
    heard: list[Heard]
    denied: Counter[str]

    @property
    def label(self) -> bool:
        """The outcome that is stored, wrong for some tasks."""
        return self.success == self.task.true_label


def run(
    world: World, task: Task, agent: Agent, advise: Advise, *, deny: Deny = lambda tool: None, deaf: bool = False
) -> Run:
    """Let an agent work on a task. What it draws depends on the task and the turn alone, so that runs are paired.

    Args:
        deny: Asked of each call that is alone in its turn. The agent takes the alternative in as many turns as it obeys
            in; in the others it makes the call again.
        deaf: Whether it does not hear what it is advised, which is recorded all the same.
    """
    progress, heard, denied = Progress(world, task), list[Heard](), Counter[str]()
    for turn in range(task.most_calls):
        advice = advise(progress.messages)
        if not progress.failed:
            heard.append(heard_in(progress, advice))
        calls = agent.act(progress, Suggestions() if deaf else advice, Random(f"{task.id} turn {turn}"))
        if calls == (END,):
            break
        denial = deny(calls[0]) if len(calls) == 1 else None
        if denial is not None:
            if progress.failed:  # a mistake was made before
                denied["too late"] += 1
            else:
                denied["wrongly" if calls[0] in progress.right else "rightly"] += 1
                denied["to what is right"] += denial.way.instead in progress.right
            progress.refuse(calls[0], denial.text)
            if Random(f"{task.id} turn {turn} denied").random() < agent.obedience:
                calls = (denial.way.instead,)
        progress.call(*calls)
        if progress.given_up:
            break
    ended = not progress.given_up
    progress.stop()
    return Run(task, progress.messages, progress.called, ended and progress.success, heard, denied)


def heard_in(progress: Progress, advice: Suggestions) -> Heard:
    named, chance = (advice[0].tool, advice[0].score) if advice else (END if advice.done else "", advice.done)
    warned = tuple(way.tool for way in advice.warnings)
    instead = next((way.instead for way in advice.warnings if way.instead), "")
    return Heard(progress.step.branch, progress.right, named, chance, warned, instead, len(progress.called))


def silent(messages: Sequence[Message]) -> Suggestions:
    """No memory."""
    return Suggestions()
