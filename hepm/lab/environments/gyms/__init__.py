"""Look-alikes of UserRL's gyms (PRIME 4.1, appendix C; Qian et al., 2025), with data of our own: no package is needed.

The user is a rule that hears words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from hepm.experience.credit import CreditMethod
from hepm.lab.environments import Call, Environment, Episode, GoldTurn, Task
from hepm.lab.environments.gyms.episode import GymEpisode, records
from hepm.lab.environments.gyms.functions import FunctionEnvironment
from hepm.lab.environments.gyms.helped import PersuadeEpisode, SearchEpisode, ShopEpisode
from hepm.lab.environments.gyms.hidden import IntentionEpisode, TelepathyEpisode, TravelEpisode, TurtleEpisode

# The name of all gyms together.
ALL: Final = "gyms"
CREDIT: Final[Mapping[str, CreditMethod]] = dict.fromkeys(
    ("intention", "travel", "userrl-intention", "userrl-travel"), "equalised"
)
"""How turns are credited, by gym: equally where information is gathered in parallel (PRIME, appendix D)."""


GYMS: Final[Mapping[str, type[GymEpisode]]] = {
    "travel": TravelEpisode,
    "turtle": TurtleEpisode,
    "telepathy": TelepathyEpisode,
    "intention": IntentionEpisode,
    "persuade": PersuadeEpisode,
    "search": SearchEpisode,
    "tau": ShopEpisode,
}


class Gym:
    """20 tasks of a gym, the last fifth of each kind as test split. Runs of a task with the same actions are equal."""

    def __init__(self, gym: str) -> None:
        self.gym = self.name = gym

    def tasks(self) -> Sequence[Task]:
        """The tasks, in a fixed order."""
        tasks: list[Task] = []
        known = Counter(record["kind"] for record in records(self.gym))
        seen: Counter[str] = Counter()
        for number, record in enumerate(records(self.gym)):
            calls = tuple(Call(tool, arguments) for tool, arguments in record["right"])
            # By number, so that the split is the same everywhere.
            split = "train" if seen[record["kind"]] < known[record["kind"]] * 4 / 5 else "test"
            seen[record["kind"]] += 1
            about: Any = {"family": record["kind"], "split": split, "gold": (GoldTurn(calls),)}
            tasks.append(Task(f"{self.gym}-{number}", record["request"], GYMS[self.gym].system, **about))
        return tasks

    def start(self, task: Task, *, seed: int = 0) -> GymEpisode:
        """A run; nothing in it is drawn."""
        del seed
        # "turtle-7" is the task of line 7.
        number = int(task.id.rpartition("-")[2])
        return GYMS[self.gym](records(self.gym)[number])

    def close(self) -> None:
        """Nothing is held."""


class AllGyms:
    """The seven gyms and `functions` as one environment, so that one library serves all (PRIME, tables 1 and 2)."""

    name = ALL

    def __init__(self) -> None:
        self._parts: Mapping[str, Environment] = {name: Gym(name) for name in GYMS} | {
            "functions": FunctionEnvironment()
        }

    def tasks(self) -> Sequence[Task]:
        """The tasks of all parts, part by part."""
        tasks: list[Task] = []
        for part in self._parts.values():
            tasks.extend(part.tasks())
        return tasks

    def part_of(self, task: Task) -> str:
        """The gym that a task is from, which its run and its lessons name as their environment."""
        # "turtle-7" is of the gym turtle.
        name = task.id.rpartition("-")[0]
        if name in GYMS:
            return name
        return "functions"  # whose tasks are named after their kind: "linear-3"

    def start(self, task: Task, *, seed: int = 0) -> Episode:
        """A run in the part that the task is from."""
        return self._parts[self.part_of(task)].start(task, seed=seed)

    def close(self) -> None:
        """Nothing is held."""
