"""The gyms of PRIME (4.1, appendix C), after UserRL (Qian et al., 2025), with data of our own: no package is needed.

The user is a rule that hears words. In an environment whose name ends in "-user", a model listens instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from hepm.agents.loop import ChatModel
from hepm.evals.environments import Ask, Environment, Episode, Task, endpoint_of_user
from hepm.evals.environments.functions import FunctionEnvironment
from hepm.evals.environments.gyms.episode import GymEpisode, GymTask
from hepm.evals.environments.gyms.hearing import Hearing, by_model, by_words
from hepm.evals.environments.gyms.helped import (
    persuade_episode,
    persuade_tasks,
    search_episode,
    search_tasks,
    tau_episode,
    tau_tasks,
)
from hepm.evals.environments.gyms.hidden import (
    MOST_QUESTIONS,
    intention_episode,
    intention_tasks,
    telepathy_episode,
    telepathy_tasks,
    travel_episode,
    travel_tasks,
    turtle_episode,
    turtle_tasks,
)
from hepm.experience.credit import CreditMethod
from hepm.llm import Endpoint

# The name of all gyms together.
ALL: Final = "gyms"
CREDIT: Final[Mapping[str, CreditMethod]] = {"intention": "equalised", "travel": "equalised"}
"""How turns are credited, by gym: equally where information is gathered in parallel (PRIME, appendix D)."""


class _Gym(NamedTuple):
    """What makes a gym: its rules for the agent, its tasks, and a run of one."""

    system: str
    tasks: Callable[[], list[GymTask]]
    start: Callable[[str, Hearing], GymEpisode]


GYMS: Final[Mapping[str, _Gym]] = {
    "travel": _Gym(
        "You plan a trip for a user. Find out by questions what the user wants of climate, days, budget, lodging and "
        "food, at most two at once, then search what there is, and finish with a recommendation that names one of the "
        "options for each. Actions: action (a question), search, finish.",
        travel_tasks,
        travel_episode,
    ),
    "turtle": _Gym(
        "The user tells a strange story. Find out what happened by questions of yes and no, one thing at a time: begin "
        "with what is odd, and narrow down. Then answer once, with all of it. Actions: action (a question), answer.",
        turtle_tasks,
        turtle_episode,
    ),
    "telepathy": _Gym(
        "The user thinks of something. Find out what by at most "
        f"{MOST_QUESTIONS} questions of yes and no, each of which should halve what is left. Then answer once, by its "
        "name alone. Actions: action (a question), answer.",
        telepathy_tasks,
        telepathy_episode,
    ),
    "intention": _Gym(
        "The user's request is vague. Find out all that it leaves open by questions, at most two related ones in a "
        "message, then finish with what you understood. Actions: action (a question), finish.",
        intention_tasks,
        intention_episode,
    ),
    "persuade": _Gym(
        "Change the user's mind. Hear the doubt, search for a fact that answers it, and bring that fact as argument, "
        "one doubt after the other. Then finish. Actions: action (an argument), search, finish.",
        persuade_tasks,
        persuade_episode,
    ),
    "search": _Gym(
        "Answer the user's question from what you find, in as few words as it takes. It needs several searches, each "
        "with a name that the last one gave. Actions: search, answer.",
        search_tasks,
        search_episode,
    ),
    "tau": _Gym(
        "You serve customers of a shop. Ask for the number of the order and look at it. Orders that are processing "
        "alone can be cancelled or sent elsewhere, and only items of delivered ones refunded; refuse all else. Before "
        "you change an order, say what you will do and ask whether you may go ahead. Then finish.",
        tau_tasks,
        tau_episode,
    ),
}


class Gym:
    """20 tasks of a gym; the last four are the test split. Two runs of a task with the same actions are equal."""

    def __init__(self, gym: str) -> None:
        self.gym = self.name = gym

    def tasks(self) -> Sequence[Task]:
        """The tasks, in a fixed order."""
        gym = GYMS[self.gym]
        # The split is by number: the last fifth is held out.
        tasks = gym.tasks()
        return [task.task(number, len(tasks), gym.system) for number, task in enumerate(tasks)]

    def start(self, task: Task, *, seed: int = 0) -> GymEpisode:
        """A run; nothing in it is drawn."""
        del seed
        return GYMS[self.gym].start(task.id, by_words)

    def close(self) -> None:
        """Nothing is held."""


class ListeningGym(Gym):
    """The same, where a model listens for the user: a `hepm.evals.environments.PlayedUser`."""

    def __init__(self, gym: str) -> None:
        super().__init__(gym)
        self.name = f"{gym}-user"

    @property
    def user(self) -> Endpoint:
        """HEPM_USER_MODEL, at `Endpoint.of_user`."""
        return endpoint_of_user(self.name, "listens for the user")

    @cached_property
    def _chat(self) -> ChatModel:
        return ChatModel(self.user)

    def start(self, task: Task, *, seed: int = 0, ask: Ask | None = None) -> GymEpisode:
        """A run whose user hears by the model."""
        del seed
        return GYMS[self.gym].start(task.id, by_model(ask or self._chat, self.user.model))

    def close(self) -> None:
        """Close the model's connections, if it was asked at all."""
        # A cached property: in the instance once it was read.
        chat = self.__dict__.pop("_chat", None)
        if chat:
            chat.__exit__()


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
