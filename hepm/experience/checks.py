"""Checks before consequences, and changes that fail: what to do, or not to do, before something is changed.

A check is what runs that succeeded had read before they called a tool that changes something, and runs that failed had
not. A trap is a change, such as an edit of a file or a command, after which runs failed; with it comes what runs with
like requests did that succeeded.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
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
    # By tool and what was read before its first call: the successful runs, and the failed ones.
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
                    with_good, with_bad = read[tool, reads]
                    (with_good if run.well else with_bad).append(run.id)
    best: dict[ToolName, BeforeCall] = {}
    for (tool, reads), (with_good, with_bad) in sorted(read.items()):
        check = BeforeCall(tool, reads, good[tool], len(with_good), bad[tool], len(with_bad), tuple(with_good))
        if _decides(check) and (tool not in best or _gap(check) > _gap(best[tool])):
            best[tool] = check
    return sorted(best.values(), key=lambda check: (-check.good_read, check.sentence))


def _gap(check: BeforeCall) -> float:
    """How much larger the share is of successful runs that read before, than that of failed ones."""
    return check.good_read / check.good - check.bad_read / check.bad


def _decides(check: BeforeCall) -> bool:
    if check.good < FEWEST_GOOD or check.bad < FEWEST_BAD or _gap(check) < DIFFERENT_FROM:
        return False
    # Wilson's 95 % intervals of the two shares do not meet.
    highest = 1 - lower_bound(check.bad - check.bad_read, check.bad_read)
    return lower_bound(check.good_read, check.good - check.good_read) > highest


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
    failures = [run.well for run in runs].count(False)
    traps: list[Trap] = []
    for text, makers in sorted(made.items()):
        failed = sorted(id for id, run in makers.items() if not run.well)
        if len(failed) < FEWEST_BAD or len(failed) < TRAP_SHARE * len(makers):
            continue
        chance = chance_of(len(failed), len(makers), failures, len(runs))
        if chance > 5 * BY_CHANCE:
            continue
        instead = _instead(text, makers, runs, made)
        if instead or chance <= BY_CHANCE:
            named = tuple(dict.fromkeys(tools[change] for change in (text, *instead)))
            traps.append(Trap(text, instead, named, len(failed), len(makers), tuple(failed)))
    return sorted(_first_of_runs(traps, made), key=lambda trap: (-trap.failed, trap.does))


def _first_of_runs(traps: Iterable[Trap], made: Mapping[str, Mapping[str, RunSteps]]) -> list[Trap]:
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
    ways = 0
    # Whole numbers to the end: the binomials of hundreds of runs are too large for a float.
    for failing in range(failed, most + 1):
        ways += math.comb(failures, failing) * math.comb(runs - failures, taken - failing)
    return ways / every


def _instead(
    text: str, makers: Mapping[str, RunSteps], runs: Sequence[RunSteps], made: Mapping[str, Mapping[str, RunSteps]]
) -> tuple[str, ...]:
    """What most successful runs with like requests did, and none of those that made the change and failed.

    Args:
        makers: The runs that made the change `text`, by id.
        made: The same for all changes.
    """
    failed = {id: run for id, run in makers.items() if not run.well}
    alike: dict[str, RunSteps] = {}
    for run in runs:
        if run.well and run.id not in makers and _alike(run, failed.values()):
            alike[run.id] = run
    # The changes that most of them made; of equally frequent ones all.
    most = 0
    best: set[str] = set()
    for other, others in made.items():
        good = len(alike.keys() & others.keys())
        most_did = good >= FEWEST_BAD and 2 * good > len(alike)
        if other == text or not most_did or not failed.keys().isdisjoint(others):
            continue
        if good > most:
            most = good
            best.clear()
        if good == most:
            best.add(other)
    # Their order is that of the first run which did them all.
    for run in alike.values():
        if all(run.id in made[other] for other in best):
            order = dict.fromkeys(action.texts[0] for action in run.untroubled())
            return tuple(filter(best.__contains__, order))[:STEPS_INSTEAD]
    return ()


def _alike(run: RunSteps, others: Collection[RunSteps]) -> bool:
    """Whether a run is of the task of one of some others, or has a like request."""
    return any(run.task == other.task or _shared(run.request, other.request) >= LIKE_REQUEST for other in others)


def _shared(one: frozenset[str], other: frozenset[str]) -> float:
    """Words in common, as a share of the shorter request's."""
    return len(one & other) / max(1, min(len(one), len(other)))
