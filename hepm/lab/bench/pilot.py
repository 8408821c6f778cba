"""What a bench will ask, by a small one of its kind that is made before it: the pilot.

Made by the model, its runs are those that the bench would make too, where memory allows: a bench takes them over. Made
by a rehearsal (`hepm.lab.bench.rehearsal`), it asks nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from hepm.errors import InputError
from hepm.lab.bench.folder import Key
from hepm.lab.bench.play import Bench
from hepm.llm import Usage

_OF_RUNS: Final[Mapping[str, Callable[[Bench, Key], object]]] = {
    "plan": lambda bench, key: bench.arm_of(key).plans,
    "choose": lambda bench, key: bench.arm_of(key).chooses,
    "reflexion": lambda bench, key: bench.arm_of(key).reflects and key.trial,
}
"""Steps of questions that some runs ask; others are asked of each run that memory learns from."""


def rest_of(whole: Bench, small: Bench, known: Sequence[Key] = ()) -> Usage:
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
    if whole.each_alike:
        by_arm, by_step = small.folder.asked()
        return _times(sum((*by_arm.values(), *by_step.values()), Usage()), len(waiting) / len(small.ended))
    return _by_arm_and_step(whole, small, waiting)


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
            number, of = sum(bool(asks(whole, key)) for key in waiting), sum(bool(asks(whole, key)) for key in made)
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
    training = {task.id for task in bench.training}
    return sum(key.arm in sources and key.task in training for key in first)


def _times(usage: Usage, factor: float) -> Usage:
    parts = (usage.calls, usage.input_tokens, usage.cached_input_tokens, usage.output_tokens)
    return Usage(*(round(factor * part) for part in parts), estimated=True)
