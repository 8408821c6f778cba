"""What a memory of recorded runs says: at branches, along right runs, and in successful runs of unhinted agents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice

import numpy as np

from hepm import Memory
from hepm.ingest.formats.turns import read_messages
from hepm.types import END, Outcome, Suggestions, Trajectory

from .agents import Agent, Heard, Run, heard_in, run, silent
from .online import Arm, empty_memory
from .world import Message, Progress, Task, World, follow

QUESTIONS = 40  # of each kind of branch
HELD_OUT = 40  # tasks whose right runs are asked about, and tasks of agents without hints
BINS = 10  # of stated chances


@dataclass(frozen=True, slots=True)
class Answers:
    """What a memory of `runs` runs says.

    Attributes:
        branches: Of each kind, how many first tools were right and wrong, and how often there was none.
        heard: At each turn of right runs of unseen tasks.
        heard_in_successes: At each turn of successful runs of agents without hints, other calls between.
    """

    runs: int
    branches: dict[str, Counter[str]]
    heard: list[Heard]
    heard_in_successes: list[Heard]


def answers_from_logs(world: World, agent: Agent, arm: Arm, *, sizes: Iterable[int], seed: int) -> Iterator[Answers]:
    """Answers at each size of a memory that grows from runs of agents without hints."""
    logged = (run(world, world.task(f"log {seed}/{number}"), agent, silent) for number in count())
    held = 0
    with empty_memory(**arm.opened) as memory:
        for size in sorted(sizes):
            memory.ingest(recorded(world, ended) for ended in islice(logged, size - held))
            memory.refresh()
            held = size
            asked = Asked(world, agent, arm, memory, seed)
            branches = {kind: asked.at_branch(kind) for kind in world.branches}
            yield Answers(size, branches, asked.along_right_runs(), asked.in_successes())


def recorded(world: World, ended: Run) -> Trajectory:
    """A run as a log has it."""
    outcome = Outcome(float(ended.label), ended.label)
    return Trajectory(ended.task.id, read_messages(ended.messages), outcome, environment=world.name)


@dataclass(frozen=True, slots=True)
class Asked:
    """Questions to a memory; nothing of them is stored."""

    world: World
    agent: Agent
    arm: Arm
    memory: Memory
    seed: int

    def at_branch(self, kind: str) -> Counter[str]:
        found: Counter[str] = Counter()
        for progress in islice(self._at_branches(kind), QUESTIONS):
            heard = heard_in(progress, self._advise(progress.messages))
            found["silent" if not heard.named else "right" if heard.named in heard.right else "wrong"] += 1
        return found

    def _at_branches(self, kind: str) -> Iterator[Progress]:
        for number in count():
            progress = Progress(self.world, self.world.task(f"question {self.seed}/{number}"))
            if follow(progress, until=kind):
                yield progress

    def along_right_runs(self) -> list[Heard]:
        found: list[Heard] = []
        for task in self._tasks("held out"):
            progress = Progress(self.world, task)
            while True:
                found.append(heard_in(progress, self._advise(progress.messages)))
                step = progress.step
                if step.calls == (END,):
                    break
                progress.call(*(step.calls if step.together else step.calls[:1]))
        return found

    def in_successes(self) -> list[Heard]:
        found: list[Heard] = []
        for task in self._tasks("another log"):
            ended = run(self.world, task, self.agent, self._advise, deaf=True)
            found += ended.heard if ended.success else []
        return found

    def _tasks(self, name: str) -> list[Task]:
        return [self.world.task(f"{name} {self.seed}/{number}") for number in range(HELD_OUT)]

    def _advise(self, messages: Sequence[Message]) -> Suggestions:
        session = self.memory.session(environment=self.world.name, tools=self.world.tools, **self.arm.session)
        advice = self.arm.advice(self.memory, session, messages, self.world, keep=False)
        session.discard()
        return advice


def calibration_error(heard: Sequence[Heard]) -> float | None:
    """Expected calibration error of the stated chances of first tools; None if none was named."""
    said = [one for one in heard if one.named]
    if not said:
        return None
    chance_N = np.array([one.chance for one in said])
    right_N = np.array([one.named in one.right for one in said], dtype=np.float64)
    bin_N = np.minimum((chance_N * BINS).astype(np.intp), BINS - 1)
    off_B = np.bincount(bin_N, weights=chance_N - right_N, minlength=BINS)
    return float(np.abs(off_B).sum() / len(said))


def warned_of_right(heard: Sequence[Heard]) -> tuple[int, int]:
    """How many warnings there were, and how many of them were of a call that is right now."""
    warnings = [tool in one.right for one in heard for tool in one.warned]
    return sum(warnings), len(warnings)
