"""What a bench will ask, by a small one of its kind that is made before it: the pilot.

Made by the model, its runs are those that the bench would make too, where memory allows: a bench takes them over. Made
by a rehearsal (`hepm.lab.bench.rehearsal`), it asks nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from hepm.errors import InputError
from hepm.lab.bench.arms import ARMS
from hepm.lab.bench.explore import Exploration
from hepm.lab.bench.folder import Folder, Key
from hepm.lab.bench.play import Bench
from hepm.lab.collaboration.play import UserBench
from hepm.lab.environments import Task, place_of
from hepm.llm import Usage

PilotedBench: TypeAlias = Bench | UserBench | Exploration
MOST: Final = 12
"""Tasks, users, or episodes of a round, of a pilot."""
_ROUNDS: Final = 2
"""Of a pilot: one without lessons, and one with them."""
_OF_RUNS: Final[Mapping[str, Callable[[Key], object]]] = {
    "plan": lambda key: ARMS[key.arm].plans,
    "choose": lambda key: ARMS[key.arm].chooses,
    "reflexion": lambda key: ARMS[key.arm].reflects and key.trial,
}
"""Steps of questions that some runs ask; others are asked of each run that memory learns from."""


def eighth(number: int) -> int:
    """How many of so many tasks, users or episodes a pilot takes: an eighth, 1 to 12."""
    return max(1, min(number // 8, MOST))


class SmallBench(Bench):
    """A few tasks of a bench, spread evenly, in one trial each, or two where an arm reflects on the first."""

    def __init__(self, bench: Bench, folder: Folder, most: Callable[[int], int] = eighth) -> None:
        self._most = most
        trials = 1 + any(arm.reflects for arm in bench.options.arms)
        options = replace(bench.options, trials=trials, rollouts=min(bench.options.rollouts, 1))
        tested = self._some(bench.tested)
        if bench.learns_online:
            # Runs online depend on those before them.
            tested = bench.tested[: len(tested)]
        super().__init__(bench.environment, tested, folder, bench.endpoint, options, given=bench.given)

    def _some(self, tasks: Sequence[Task]) -> Sequence[Task]:
        number = min(self._most(len(tasks)), len(tasks))
        return [tasks[place * len(tasks) // number] for place in range(number)]

    def training_tasks(self) -> Sequence[Task]:
        tasks = super().training_tasks()
        if tasks is self.tested:
            return tasks
        return self._some(tasks)


def small_users(bench: UserBench, folder: Folder, most: Callable[[int], int] = eighth) -> UserBench:
    """The first users of a bench, with all their sessions."""
    return replace(bench, users=bench.users[: most(len(bench.users))], folder=folder)


def small_exploration(exploration: Exploration, folder: Folder) -> Exploration:
    """Two rounds of a few episodes: of every second environment, where a round has few of each."""
    bench = exploration.bench
    places = sorted({place_of(bench.environment, task) for task in bench.tested})
    episodes = eighth(len(exploration.plan[0])) // len(places)
    if not episodes:
        places = places[::2]
    tested = [task for task in bench.tested if place_of(bench.environment, task) in places]
    made = Bench(bench.environment, tested, folder, bench.endpoint, bench.options)
    rounds = min(_ROUNDS, len(exploration.plan))
    return Exploration(made, episodes=max(1, episodes), rounds=rounds, prune_below=exploration.prune_below)


def runs_alike(whole: PilotedBench, small: PilotedBench) -> list[Key]:
    """The runs of a small bench that the whole one makes alike: those that no other memory would change."""
    if isinstance(whole, Exploration):
        # In a first round no lesson is known.
        return [key for key in small.ended if key in whole.plan[0]]
    if isinstance(whole, UserBench) or whole.learns_online:
        return [*small.ended]
    return [key for key in small.ended if not ARMS[key.arm].remembers]


def rest_of(whole: PilotedBench, small: PilotedBench, known: Sequence[Key] = ()) -> Usage:
    """About what the runs of a bench take that are neither there nor known, by those of a small one.

    Raises:
        InputError: the small one has no run.
    """
    waiting = [key for key in whole.waiting() if key not in known]
    if not waiting:
        return Usage()
    if not small.ended:
        reason = next(iter(small.failed.values()), "there is no run")
        raise InputError(f"the cost cannot be estimated, as no run of a pilot was finished: {reason}")
    if isinstance(whole, Bench) and isinstance(small, Bench):
        return _by_arm_and_step(whole, small, waiting)
    by_arm, by_step = small.folder.asked()
    return _times(sum((*by_arm.values(), *by_step.values()), Usage()), len(waiting) / len(small.ended))


def _by_arm_and_step(whole: Bench, small: Bench, waiting: Sequence[Key]) -> Usage:
    made = [*small.ended]
    by_arm, by_step = small.folder.asked()
    total = Usage()
    for arm, number in Counter(key.arm for key in waiting).items():
        # An arm whose pilot broke off is taken for the mean of the others.
        alike = [key.arm for key in made if key.arm == arm] or [key.arm for key in made]
        took = [by_arm.get(name, Usage()) + by_arm.get(f"{name}, user", Usage()) for name in {*alike}]
        total += _times(sum(took, Usage()), number / len(alike))
    for step, took in by_step.items():
        if step in _OF_RUNS:
            asks = _OF_RUNS[step]
            number, of = sum(bool(asks(key)) for key in waiting), sum(bool(asks(key)) for key in made)
        else:
            number, of = 0, _learned(small)
            if {*whole.plan()[1]} & {*waiting}:
                number = _learned(whole)
        total += _times(took, number / max(of, 1))
    return total


def _learned(bench: Bench) -> int:
    """How many runs memory learns from."""
    first, second = bench.plan()
    if bench.options.learn == "online":
        return len(second)
    sources = {arm.learns_from for arm in bench.options.arms if arm.remembers}
    training = {task.id for task in bench.training_tasks()}
    return sum(key.arm in sources and key.task in training for key in first)


def _times(usage: Usage, factor: float) -> Usage:
    parts = (usage.calls, usage.input_tokens, usage.cached_input_tokens, usage.output_tokens)
    return Usage(*(round(factor * part) for part in parts), estimated=True)
