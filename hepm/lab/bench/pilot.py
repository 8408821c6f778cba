"""What a bench will ask, by a small one of its kind that is made before it: the pilot.

Made by the model, its runs are those that the bench would make too, where memory allows: a bench takes them over. Made
by a rehearsal (`hepm.lab.bench.rehearsal`), it asks nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hepm.errors import InputError
from hepm.lab.bench.folder import Key
from hepm.lab.bench.play import Bench
from hepm.llm import Usage


def rest_of(whole: Bench, small: Bench, known: Sequence[Key] = ()) -> Usage:
    """About what the runs of a bench take that are neither there nor known, by those of a small one.

    Runs of an arm take as much as those of the small one; questions beside them as many for each run.

    Raises:
        InputError: the small one has no run.
    """
    waiting = Counter(key.arm for key in whole.waiting() if key not in known)
    if not waiting:
        return Usage()
    if not small.ended:
        reason = next(iter(small.failed.values()), "there is no run")
        raise InputError(f"the cost cannot be estimated, as no run of a pilot was finished: {reason}")
    by_arm, questions = small.folder.asked()
    made = Counter(key.arm for key in small.ended)
    total = _times(questions, waiting.total() / made.total())
    for arm, number in waiting.items():
        # An arm whose pilot broke off is taken for the mean of the others.
        alike = [arm] if arm in made else [*made]
        took = sum((by_arm.get(name, Usage()) for name in alike), Usage())
        total += _times(took, number / sum(made[name] for name in alike))
    return total


def _times(usage: Usage, factor: float) -> Usage:
    parts = (usage.calls, usage.input_tokens, usage.cached_input_tokens, usage.output_tokens)
    return Usage(*(round(factor * part) for part in parts), estimated=True)
