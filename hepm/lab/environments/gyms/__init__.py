"""Look-alikes of UserRL's gyms (PRIME 4.1, appendix C; Qian et al., 2025), with data of our own: no package is needed.

The user is a rule that looks for words.
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

    The name `ALL` is for the eight gyms as one environment, so that one library serves all (PRIME, tables 1 and 2).
    Runs of a task with the same actions are equal.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def tasks(self) -> Sequence[Task]:
        """The tasks, in a fixed order, gym by gym; "turtle-7" is the task of line 7."""
        tasks: list[Task] = []
        for gym in GYMS if self.name == ALL else (self.name,):
            known = Counter(record["kind"] for record in records(gym))
            seen: Counter[str] = Counter()
            system = written("gyms")[gym]["system"]
            for number, record in enumerate(records(gym)):
                kind = record["kind"]
                # By number, so that the split is the same everywhere.
                split = "train" if seen[kind] < known[kind] * 4 / 5 else "test"
                seen[kind] += 1
                gold = Turn("assistant", "", tuple(ToolCall(*action) for action in record["right"]))
                tasks.append(Task(f"{gym}-{number}", record["request"], system, kind, split, gym, (gold,)))
        return tasks

    def start(self, task: Task, *, seed: int = 0) -> GymEpisode:
        """A run; nothing in it is drawn."""
        del seed
        gym, _, number = task.id.rpartition("-")
        return GYMS[gym](gym, records(gym)[int(number)])

    def close(self) -> None:
        """Nothing is held."""
