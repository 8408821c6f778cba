"""Outcomes by rule, for runs without a label: small named rules that answer success, failure or nothing.

A rule that is not sure answers nothing: a wrong label misleads every later run, and a missing one only teaches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from hepm.errors import InputError
from hepm.ingest.runners import Change, TestRun, events_of, exit_code
from hepm.ingest.shell_parser import command_of
from hepm.types import OUTCOME_BY, Outcome, Trajectory


def by_tests(run: Trajectory) -> bool | None:
    """Whether the tests that the run ended with passed.

    Nothing is said if no test ran, tests could not be started, something was changed after them, or the user then asked
    for more or complained. Further:

    - Success needs every failed test command to be repeated, or a wider one to pass; no test that ran before may be
      missing; and more than tests must have changed since they failed.
    - Failure needs a change of something other than tests, and more failures than before the first change.
    """
    calls = [(at, call) for at, turn in enumerate(run.turns) if turn.role != "user" for call in turn.calls]
    events = [(at, event) for at, call in calls for event in events_of(call)]
    last = next((n for n in reversed(range(len(events))) if isinstance(events[n][1], TestRun)), None)
    if last is None:
        return None
    turn, end = events[last]
    if not isinstance(end, TestRun) or end.passed is None or any(isinstance(one, Change) for _, one in events[last:]):
        return None
    later = [at for at, one in enumerate(run.turns) if at > turn and one.role == "user" and one.text]
    if later and (calls[-1][0] > later[0] or any(_CORRECTION.search(run.turns[at].text) for at in later)):
        return None
    return (_passed if end.passed else _failed)([one for _, one in events[:last]], end)


def _passed(before: Sequence[Change | TestRun], end: TestRun) -> bool | None:
    tests = [one for one in before if isinstance(one, TestRun)]
    later = [*tests, end]
    for at, one in enumerate(tests):
        if one.passed is False and not any(two.passed and two.covers(one) for two in later[at + 1 :]):
            return None
        if one.counts and end.counts and end.covers(one) and sum(one.counts) > sum(end.counts):
            return None
    failed = max((at for at, one in enumerate(before) if isinstance(one, TestRun) and one.passed is False), default=-1)
    since = [one for one in before[failed + 1 :] if isinstance(one, Change)] if failed >= 0 else []
    return None if since and all(one.of_tests for one in since) else True


def _failed(before: Sequence[Change | TestRun], end: TestRun) -> bool | None:
    first = next((at for at, one in enumerate(before) if isinstance(one, Change)), None)
    if first is None or all(one.of_tests for one in before if isinstance(one, Change)):
        return None
    at_first = [one for one in before[:first] if isinstance(one, TestRun) and one.passed is False]
    for one in at_first:
        if one.counts is None or end.counts is None or one.counts[1] >= end.counts[1]:
            return None
    return False


def by_exit_code(run: Trajectory) -> bool | None:
    """Whether the last shell command ended with 0, where its result holds an exit code."""
    last = next((call for call in reversed(list(run.calls())) if command_of(call.arguments)), None)
    code = None if last is None else exit_code(last)
    return None if code is None else code == 0


_THANKS: Final = re.compile(
    r"\b(?:thanks?|thank you|thx|perfect|works (?:now|great|well)|well done|awesome)\b", re.IGNORECASE
)
_CORRECTION: Final = re.compile(
    r"\b(?:no|not|wrong|still|but|instead|broken|undo|revert|fail(?:s|ed|ing)?|error|unfortunately)\b|n['\u2019]t\b|\?|"
    r"interrupted by user",
    re.IGNORECASE,
)
_SHORT: Final = 200


def by_user(run: Trajectory) -> bool | None:
    """Whether the user thanked at the end, or corrected. English only, and words mislead: off by default."""
    acted = max((at for at, turn in enumerate(run.turns) if turn.role == "assistant"), default=-1)
    last = max((at for at, turn in enumerate(run.turns) if turn.role == "user" and turn.text), default=-1)
    text = (
        run.turns[last].text if last > 0 and any(turn.calls for turn in run.turns[:last]) and acted <= last + 1 else ""
    )
    thanked, corrected = _THANKS.search(text) is not None, _CORRECTION.search(text) is not None
    return None if thanked == corrected or len(text) > _SHORT else thanked


class Verdict(NamedTuple):
    """What a rule or a judge says of a run.

    Attributes:
        success: None if it says nothing.
        by: The rule, or "judge:MODEL".
        problem: Why a judge gave no usable answer.
    """

    run: Trajectory
    success: bool | None
    by: str
    problem: str = ""

    @property
    def labelled(self) -> Trajectory:
        """The run with this label."""
        tags = {**self.run.tags, OUTCOME_BY: self.by}
        return replace(self.run, outcome=Outcome(None, self.success), tags=tags)


RULES: Final[Mapping[str, Callable[[Trajectory], bool | None]]] = {
    "tests": by_tests,
    "exit-code": by_exit_code,
    "user": by_user,
}
"""Every rule by its name."""


OUTCOME_BY_DEFAULT: Final = ("tests",)
"""Rules that apply if no others are chosen: the one that speaks of what was run, and of nothing else."""


def check_rules(names: Iterable[str]) -> None:
    """Raise InputError if one of the names is of no rule."""
    if unknown := [name for name in names if name not in RULES]:
        raise InputError(f"no rule is called {unknown[0]!r}; there are {', '.join(RULES)}.")


def verdict_of(run: Trajectory, rules: Iterable[str]) -> Verdict:
    """What the first rule says that says anything. Nothing is said of runs with an outcome, or not trusted ones."""
    if run.outcome == Outcome() and run.trusted:
        for name in rules:
            if (success := RULES[name](run)) is not None:
                return Verdict(run, success, name)
    return Verdict(run, None, "")
