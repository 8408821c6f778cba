"""What a bench will ask, by a small one of its kind that is made before it: the pilot.

Made by the model, its runs are those that the bench would make too, where memory allows: a bench takes them over. Made
by a rehearsal (`hepm.lab.bench.rehearsal`), it asks nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from hepm.errors import InputError
from hepm.lab.bench.arms import ARMS
from hepm.lab.bench.explore import Exploration
from hepm.lab.bench.folder import Folder, Key
from hepm.lab.bench.play import Bench
from hepm.lab.environments import Task, place_of
from hepm.llm import Usage

MOST_TASKS: Final = 12
"""Tasks, or episodes of a round, of a pilot."""
ANSWER_TOKENS: Final = 200
"""About what a model answers to a question about a run."""
_OF_RUNS: Final[Mapping[str, Callable[[Key], object]]] = {
    "plan": lambda key: ARMS[key.arm].plans,
    "choose": lambda key: ARMS[key.arm].chooses,
    "reflexion": lambda key: ARMS[key.arm].reflects and key.trial,
}
"""Steps of questions that some runs ask; others are asked of each run that memory learns from."""


def pilot_tasks(number: int) -> int:
    """How many of so many tasks a pilot takes: an eighth, 3 to 12."""
    return min(number, MOST_TASKS, max(3, number // 8))


def pilot_users(number: int) -> int:
    """How many of so many users a pilot takes, with all their sessions: an eighth, 1 to 12."""
    return min(number, MOST_TASKS, max(1, number // 8))


class SmallBench(Bench):
    """A few tasks of a bench, spread evenly, in one trial each, or two where an arm reflects on the first."""

    def __init__(self, bench: Bench, folder: Folder, most: Callable[[int], int] = pilot_tasks) -> None:
        self._most = most
        trials = 1 + any(arm.reflects for arm in bench.options.arms)
        options = replace(bench.options, trials=trials, rollouts=min(bench.options.rollouts, 1))
        tested = self._some(bench.tested)
        if options.learn == "online" and bench.given is None:
            # Runs online depend on those before them.
            tested = bench.tested[: len(tested)]
        super().__init__(bench.environment, tested, folder, bench.endpoint, options, given=bench.given)

    def _some(self, tasks: Sequence[Task]) -> Sequence[Task]:
        step = -(-len(tasks) // max(self._most(len(tasks)), 1))
        return tasks[:: max(step, 1)]

    def training_tasks(self) -> Sequence[Task]:
        tasks = super().training_tasks()
        if tasks is self.tested:
            return tasks
        return self._some(tasks)

    def kept(self) -> list[Key]:
        """The runs that the whole bench makes alike: those that no other memory would change."""
        alike = self.given is None and self.options.learn == "online"
        return [key for key in self.ended if alike or not ARMS[key.arm].remembers]


def rest_of(bench: Bench, small: Bench, known: Collection[Key]) -> Usage:
    """About what the runs of a bench take that are not known, by those of a small one.

    Raises:
        InputError: the small one has no run.
    """
    first, second = bench.plan()
    waiting = [key for key in (*first, *second) if key not in known]
    made = [*small.ended]
    if waiting and not made:
        reason = next(iter(small.failed.values()), "there is no run")
        raise InputError(f"the cost cannot be estimated, as no run of a pilot was finished: {reason}")
    by_arm, by_step = small.folder.asked()
    total = Usage(estimated=True)
    for arm, number in Counter(key.arm for key in waiting).items():
        # An arm whose pilot broke off is taken for the mean of the others.
        alike = [key.arm for key in made if key.arm == arm] or [key.arm for key in made]
        took = [by_arm.get(name, Usage()) + by_arm.get(f"{name}, user", Usage()) for name in {*alike}]
        total += times(sum(took, Usage()), number / len(alike))
    for step, took in by_step.items():
        if step in _OF_RUNS:
            number, of = (sum(bool(_OF_RUNS[step](key)) for key in keys) for keys in (waiting, made))
        else:
            number, of = _learned(bench) if {*second} & {*waiting} else 0, _learned(small)
        total += times(took, number / max(of, 1))
    return total


def _learned(bench: Bench) -> int:
    """How many runs memory learns from."""
    first, second = bench.plan()
    if bench.options.learn == "online":
        return len(second)
    sources = {arm.learns_from for arm in bench.options.arms if arm.remembers}
    training = {task.id for task in bench.training_tasks()}
    return sum(key.arm in sources and key.task in training for key in first)


def small_exploration(exploration: Exploration, folder: Folder) -> Exploration:
    """As many rounds, with few episodes of each environment."""
    bench = exploration.bench
    made = Bench(bench.environment, bench.tested, folder, bench.endpoint, bench.options)
    places = {place_of(bench.environment, task) for task in bench.tested}
    episodes = max(1, pilot_tasks(len(exploration.plan[0])) // len(places))
    rounds = len(exploration.plan)
    return Exploration(made, episodes=episodes, rounds=rounds, prune_below=exploration.prune_below)


def first_of(exploration: Exploration, small: Exploration) -> list[Key]:
    """The runs of a small one that the whole one makes alike: in their first rounds no lesson is known."""
    return [key for key in small.plan[0] if key in exploration.plan[0]]


def explored_rest(exploration: Exploration, small: Exploration, known: Collection[Key]) -> Usage:
    """About what the runs of rounds take that are not known, with all that distilling and evolving asks.

    The client that distills for the small one keeps its answers in its folder, too.
    """
    waiting = sum(key not in known for key in chain.from_iterable(exploration.plan))
    return rest_alike(small.folder, waiting, len(small.bench.ended))


def rest_alike(folder: Folder, waiting: int, made: int) -> Usage:
    """What so many runs take, as those did that were made, with all that was asked around them; else InputError."""
    if not made:
        raise InputError("the cost cannot be estimated, as no run of a pilot was finished: see what broke off.")
    return times(folder.total(), waiting / made)


def times(usage: Usage, factor: float) -> Usage:
    """So many times a usage."""
    parts = (usage.calls, usage.input_tokens, usage.cached_input_tokens, usage.output_tokens)
    return Usage(*(round(factor * part) for part in parts), estimated=True)
