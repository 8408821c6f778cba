"""Checks before consequences, and changes that fail: what to do, or not to do, before something is changed.

A check is what runs that succeeded had read before they called a tool that changes something, and runs that failed had
not. A trap is a change, such as an edit of a file or a command, after which runs failed; with it comes what runs with
like requests did that succeeded.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from hepm.experience.actions import is_reading
from hepm.experience.principle_advice import lower_bound
from hepm.experience.run_steps import RunSteps
from hepm.ingest.shell.parser import is_shell
from hepm.types import ToolName

FEWEST_GOOD: Final = 5
FEWEST_BAD: Final = 3
"""Successful and failed runs that a check needs; a trap as many failed ones."""
DIFFERENT_FROM: Final = 0.3
"""The least difference of the shares of successful and of failed runs."""
TRAP_SHARE: Final = 0.8
"""The share of the runs that made a change which must have failed."""
BY_CHANCE: Final = 0.01
"""Greatest chance that as many of them fail if the change does not matter; .05 if what others did is known."""
STEPS_INSTEAD: Final = 2
LIKE_REQUEST: Final = 0.5
"""Least share of words in common of like requests."""


class BeforeCall(NamedTuple):
    """What to read before a tool is called.

    Attributes:
        good, bad: Successful and failed runs that called the tool, and `good_read`, `bad_read` those that read before.
    """

    tool: ToolName
    reads: ToolName
    good: int
    good_read: int
    bad: int
    bad_read: int
    runs: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """Such as "before refund, call check_policy"."""
        return f"before {self.tool}, call {self.reads}"


class Trap(NamedTuple):
    """A change that fails.

    Attributes:
        does: The change: "Edit api/client.py", "git push --force".
        instead: What runs with like requests did that succeeded, up to two steps in order; none if they do not agree.
        failed, runs_made: Of the labelled runs that made it, those that failed, and all.
    """

    does: str
    instead: tuple[str, ...]
    tools: tuple[ToolName, ...]
    failed: int
    runs_made: int
    runs: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """Such as "Edit api/client.py fails; Edit openapi.yaml, then make generate worked"."""
        if not self.instead:
            return f"{self.does} fails"
        return f"{self.does} fails; {', then '.join(self.instead)} worked"


def learn_checks(runs: Iterable[RunSteps]) -> list[BeforeCall]:
    """What to read before tools that change something; of each such tool what sets runs apart most."""
    good: defaultdict[ToolName, int] = defaultdict(int)
    bad: defaultdict[ToolName, int] = defaultdict(int)
    read: defaultdict[tuple[ToolName, ToolName], tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for run in runs:
        before: dict[ToolName, None] = {}
        known: set[ToolName] = set()
        for step in run.steps:
            tool = step.call.name
            if is_reading(tool):
                before[tool] = None
            elif not is_shell(tool) and tool not in known:
                known.add(tool)
                count = good if run.well else bad
                count[tool] += 1
                for reads in before:
                    read[tool, reads][not run.well].append(run.id)
    found: dict[ToolName, BeforeCall] = {}
    for (tool, reads), (with_good, with_bad) in sorted(read.items()):
        one = BeforeCall(tool, reads, good[tool], len(with_good), bad[tool], len(with_bad), tuple(with_good))
        if _decides(one) and (tool not in found or _gap(one) > _gap(found[tool])):
            found[tool] = one
    return sorted(found.values(), key=lambda one: (-one.good_read, one.sentence))


def _gap(one: BeforeCall) -> float:
    return one.good_read / one.good - one.bad_read / one.bad


def _decides(one: BeforeCall) -> bool:
    if one.good < FEWEST_GOOD or one.bad < FEWEST_BAD or _gap(one) < DIFFERENT_FROM:
        return False
    # Wilson's 95 % intervals of the two shares do not meet.
    highest = 1 - lower_bound(one.bad - one.bad_read, one.bad_read)
    return lower_bound(one.good_read, one.good - one.good_read) > highest


def learn_traps(runs: Sequence[RunSteps]) -> list[Trap]:
    """Changes that fail, the most frequent first."""
    made: defaultdict[str, dict[str, RunSteps]] = defaultdict(dict)
    tools: dict[str, ToolName] = {}
    for run in runs:
        for action in run.untroubled():
            text = action.texts[0]
            if action.changes and " " in text:  # a tool without what it changes says too little
                made[text][run.id] = run
                tools[text] = action.tool
    failures = sum(not run.well for run in runs)
    found: list[Trap] = []
    for text, by in sorted(made.items()):
        failed = sum(not run.well for run in by.values())
        if failed < FEWEST_BAD or failed < TRAP_SHARE * len(by):
            continue
        chance = chance_of(failed, len(by), failures, len(runs))
        if chance > 5 * BY_CHANCE:
            continue
        instead = _instead(text, by, runs, made)
        if instead or chance <= BY_CHANCE:
            bad = tuple(sorted(name for name, run in by.items() if not run.well))
            named = tuple(dict.fromkeys(tools[one] for one in (text, *instead)))
            found.append(Trap(text, instead, named, failed, len(by), bad))
    return sorted(_first_of_runs(found, made), key=lambda one: (-one.failed, one.does))


def _first_of_runs(traps: Iterable[Trap], made: dict[str, dict[str, RunSteps]]) -> list[Trap]:
    """Of changes that the same runs made, the one that came first: what they did after it follows from it."""

    def position(trap: Trap) -> int:
        run = made[trap.does][trap.runs[0]]
        texts = [action.texts[0] for action in run.untroubled()]
        return texts.index(trap.does)

    first: dict[tuple[str, ...], Trap] = {}
    for trap in sorted(traps, key=position):
        first.setdefault(trap.runs, trap)
    return list(first.values())


def chance_of(failed: int, taken: int, failures: int, runs: int) -> float:
    """The chance that of `taken` runs at least `failed` fail, drawn from `runs` with `failures` (Fisher, one-sided)."""
    every = math.comb(runs, taken)
    most = min(taken, failures)
    ways = (math.comb(failures, at) * math.comb(runs - failures, taken - at) for at in range(failed, most + 1))
    return sum(ways) / every


def _instead(
    text: str, by: dict[str, RunSteps], runs: Sequence[RunSteps], made: dict[str, dict[str, RunSteps]]
) -> tuple[str, ...]:
    """What most successful runs with like requests did, and none of those that made the change and failed."""
    failed = [run for run in by.values() if not run.well]
    alike = {run.id: run for run in runs if run.well and run.id not in by and _alike(run, failed)}
    agreed: list[tuple[int, str]] = []
    for other, others in made.items():
        good = len(alike.keys() & others.keys())
        bad = sum(run.id in others for run in failed)
        if other != text and good >= FEWEST_BAD and 2 * good > len(alike) and not bad:
            agreed.append((good, other))
    most = max((good for good, _ in agreed), default=0)
    best = {other for good, other in agreed if good == most}
    # Their order is that of the first run which did them all.
    for run in alike.values():
        if all(run.id in made[other] for other in best):
            order = dict.fromkeys(action.texts[0] for action in run.untroubled())
            return tuple(text for text in order if text in best)[:STEPS_INSTEAD]
    return ()


def _alike(run: RunSteps, others: Collection[RunSteps]) -> bool:
    return any(run.task == other.task or _shared(run.request, other.request) >= LIKE_REQUEST for other in others)


def _shared(one: frozenset[str], other: frozenset[str]) -> float:
    """Words in common, as a share of the shorter request's."""
    return len(one & other) / max(1, min(len(one), len(other)))
