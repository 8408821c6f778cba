"""Outcomes by rule, for runs without a label: small named rules that answer success, failure or nothing.

A rule that is not sure answers nothing: a wrong label misleads every later run, and a missing one only teaches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from hepm.errors import InputError
from hepm.ingest.shell.test_runners import FileChange, TestRun, events_of
from hepm.types import OUTCOME_BY, Outcome, Trajectory


def by_tests(run: Trajectory) -> bool | None:
    """Whether the tests that the run ended with passed.

    Nothing is said if no test ran, tests could not be started, something was changed after them, or the user then asked
    for more or complained. Further:

    - Success needs every failed test command to be repeated, or a wider one to pass; no test that ran before may be
      missing; and more than tests must have changed since they failed.
    - Failure needs a change of something other than tests, and no failure before the first change.
    """
    events: list[FileChange | TestRun] = []
    end_turn = last_call_turn = -1
    for position, turn in enumerate(run.turns):
        if turn.role == "user":  # users have tools, too, in tau2-bench
            continue
        for call in turn.ran:
            last_call_turn = position
            for event in events_of(call):
                events.append(event)
                end_turn = position
    if not events:
        return None
    *before, end = events
    if not isinstance(end, TestRun) or end.passed is None:
        return None
    for position, turn in enumerate(run.turns):
        is_later = position > end_turn and turn.role == "user" and turn.text
        if is_later and (last_call_turn > position or _CORRECTION.search(turn.text)):
            return None
    return _passed(before, end) if end.passed else _failed(before)


def _passed(before: Sequence[FileChange | TestRun], end: TestRun) -> bool | None:
    mended: list[FileChange] | None = None  # what changed since the last failure
    for position, event in enumerate(before, 1):
        if isinstance(event, FileChange):
            if mended is not None:
                mended.append(event)
            continue
        if end.covers(event) and event.tests > end.tests > 0:
            return None
        if event.passed is False:
            tests = [test for test in (*before[position:], end) if isinstance(test, TestRun)]
            if not any(test.passed and test.covers(event) for test in tests):
                return None
            mended = []
    # Tests that pass because they were rewritten show nothing.
    return None if mended and all(change.of_tests for change in mended) else True


def _failed(before: Sequence[FileChange | TestRun]) -> bool | None:
    changes: list[FileChange] = []
    for event in before:
        if isinstance(event, FileChange):
            changes.append(event)
        # Tests that failed before the first change may still fail for reasons of their own.
        elif event.passed is False and not changes:
            return None
    # Where nothing was changed, the run did not try to mend anything.
    return None if all(change.of_tests for change in changes) else False


_CORRECTION: Final = re.compile(
    r"\b(?:no|not|wrong|still|but|instead|broken|undo|revert|fail(?:s|ed|ing)?|error|unfortunately)\b|n['\u2019]t\b|\?|"
    r"interrupted by user",
    re.IGNORECASE,
)


class RunVerdict(NamedTuple):
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
        """The run with this label; as it is if nothing is said."""
        if self.success is None:
            return self.run
        return replace(self.run, outcome=Outcome(None, self.success), tags={**self.run.tags, OUTCOME_BY: self.by})


RULES: Final = {"tests": by_tests}
"""Every rule by its name."""


OUTCOME_BY_DEFAULT: Final = ("tests",)
"""Rules that apply if no others are chosen."""


def check_rules(names: Iterable[str]) -> None:
    """Raise InputError if one of the names is of no rule."""
    for rule in names:
        if rule not in RULES:
            raise InputError(f"no rule is called {rule!r}; there are {', '.join(RULES)}.")


def verdict_of(run: Trajectory, rules: Iterable[str]) -> RunVerdict:
    """What the first rule says that says anything. Nothing is said of runs with an outcome, or not trusted ones."""
    if run.outcome == Outcome() and run.trusted:
        for rule in rules:
            success = RULES[rule](run)
            if success is not None:
                return RunVerdict(run, success, rule)
    return RunVerdict(run, None, "")
