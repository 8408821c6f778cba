"""Look-alikes of UserRL's gyms (PRIME 4.1, appendix C; Qian et al., 2025), with data of our own: no package is needed.

The user is a rule that hears words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from hepm.experience.credit import CreditMethod
from hepm.lab.environments import Task
from hepm.lab.environments.gyms.episode import GymEpisode, records, written
from hepm.lab.environments.gyms.rules import GYMS
from hepm.types import ToolCall, Turn

# The name of all gyms together.
ALL: Final = "gyms"
CREDIT: Final[Mapping[str, CreditMethod]] = dict.fromkeys(
    ("intention", "travel", "userrl-intention", "userrl-travel"), "equalised"
)
"""How turns are credited, by gym: equally where information is gathered in parallel (PRIME, appendix D)."""


class Gym:
    """20 tasks of a gym, of `functions` 20 of each of six kinds; the last fifth of each kind is the test split.

    Runs of a task with the same actions are equal.
    """

    def __init__(self, gym: str) -> None:
        self.name = gym

    def tasks(self) -> Sequence[Task]:
        """The tasks, in a fixed order; "turtle-7" is the task of line 7."""
        tasks: list[Task] = []
        known = Counter(record["kind"] for record in records(self.name))
        seen: Counter[str] = Counter()
        for number, record in enumerate(records(self.name)):
            kind = record["kind"]
            # By number, so that the split is the same everywhere.
            split = "train" if seen[kind] < known[kind] * 4 / 5 else "test"
            seen[kind] += 1
            gold = Turn("assistant", "", tuple(ToolCall(*action) for action in record["right"]))
            system = written("gyms")[self.name]["system"]
            tasks.append(Task(f"{self.name}-{number}", record["request"], system, kind, split, (gold,)))
        return tasks

    def start(self, task: Task, *, seed: int = 0) -> GymEpisode:
        """A run; nothing in it is drawn."""
        del seed
        gym, _, number = task.id.rpartition("-")
        return GYMS[gym](gym, records(gym)[int(number)])

    def close(self) -> None:
        """Nothing is held."""


class AllGyms(Gym):
    """The eight gyms as one environment, so that one library serves all (PRIME, tables 1 and 2)."""

    def __init__(self) -> None:
        super().__init__(ALL)

    def tasks(self) -> Sequence[Task]:
        """The tasks of all gyms, gym by gym."""
        tasks: list[Task] = []
        for gym in GYMS:
            tasks += Gym(gym).tasks()
        return tasks

    def part_of(self, task: Task) -> str:
        """The gym that a task is from, which its run and its lessons name as their environment."""
        return task.id.rpartition("-")[0]
