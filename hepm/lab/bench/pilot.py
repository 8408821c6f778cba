"""What a bench will ask, by a small one of its kind that is made before it: the pilot.

Made by the model, its runs are those that the bench would make too, where memory allows: a bench takes them over. Made
by a rehearsal (`hepm.lab.bench.rehearsal`), it asks nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from statistics import fmean
from typing import Final

from hepm.errors import InputError
from hepm.lab.bench.arms import ARMS, reflection_on
from hepm.lab.bench.explore import Exploration
from hepm.lab.bench.folder import Folder, Key
from hepm.lab.bench.play import Bench
from hepm.lab.environments import Task, place_of
from hepm.llm import Usage

MOST_TASKS: Final = 12
"""Tasks, or episodes of a round, of a pilot."""
ANSWER_TOKENS: Final = 200
"""About what a model answers to a question about a run."""
_OF_RUNS: Final[Mapping[str, Callable[[str], object]]] = {
    "plan": lambda arm: ARMS[arm].plans,
    "choose": lambda arm: ARMS[arm].chooses,
    "reflexion": lambda arm: ARMS[arm].reflects,
}
"""Steps of questions that are asked in runs of some arms; others are asked of each run that memory learns from."""


def pilot_tasks(number: int) -> int:
    """How many of so many tasks a pilot takes: an eighth, 3 to 12."""
    return min(number, MOST_TASKS, max(3, number // 8))


def pilot_users(number: int) -> int:
    """How many of so many users a pilot takes, with all their sessions: an eighth, 1 to 12."""
    return min(number, MOST_TASKS, max(1, number // 8))


class SmallBench(Bench):
    """A few tasks of a bench, one trial each; at most so many, spread evenly."""

    def __init__(self, bench: Bench, folder: Folder, most: Callable[[int], int] = pilot_tasks) -> None:
        self._most = most
        options = replace(bench.options, trials=1, rollouts=min(bench.options.rollouts, 1))
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
    if not waiting:
        return Usage(estimated=True)
    by_arm, by_step = small.folder.asked()
    runs: defaultdict[str, int] = defaultdict(int)
    for key in small.ended:
        runs[key.arm] += 1
    if not runs:
        reason = next(iter(small.failed.values()), "there is no run")
        raise InputError(f"the cost cannot be estimated, as no run of a pilot was finished: {reason}")
    total = Usage(estimated=True)
    for arm in dict.fromkeys(key.arm for key in waiting):
        number = sum(key.arm == arm for key in waiting)
        # An arm whose pilot broke off is taken for the mean of the others.
        arms = [arm] if runs[arm] else [name for name in runs if runs[name]]
        took = [by_arm.get(name, Usage()) + by_arm.get(f"{name}, user", Usage()) for name in arms]
        total += times(sum(took, Usage()), number / sum(runs[name] for name in arms))
        if ARMS[arm].reflects:
            # A reflection after each trial but the last, if it fails.
            about = fmean(reflection_on(ended.run).input_tokens() for ended in small.ended.values())
            again = sum(key.arm == arm and key.trial > 0 for key in waiting)
            total += Usage(again, round(again * about), 0, again * ANSWER_TOKENS)
    for step, took in by_step.items():
        asks = _OF_RUNS.get(step)
        if asks is not None:
            number = sum(bool(asks(key.arm)) for key in waiting)
            made = sum(bool(asks(key.arm)) for key in small.ended)
        else:
            number = _learned(bench) if {*second} & {*waiting} else 0
            made = _learned(small)
        total += times(took, number / max(made, 1))
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
