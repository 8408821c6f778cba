"""Whether runs still support the lines of a file such as AGENTS.md: the evidence of each, computed anew."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final, Literal, TypeAlias

from hepm.errors import InputError
from hepm.evidence.decisions import CallPlace, Decision, Situation
from hepm.evidence.rules import FAILED, FEWEST, FEWEST_FAILED, RunsOf, runs_by_tool
from hepm.evidence.upkeep import LiveEvidence, RunSample
from hepm.experience.conditions import Conditions, FactCondition
from hepm.experience.lesson_files import Claim, LineOfFile, lines_of_file
from hepm.experience.lessons import Principle
from hepm.types import START, Object, ToolName

Verdict: TypeAlias = Literal["supported", "untrue", "not met", "unchecked"]
"""Runs bear a line out; they do not; too few met its situation; or it says nothing that can be counted."""
WORKS_FROM: Final = 0.5
"""Share of the runs that did what a line says, below which it is untrue."""


@dataclass(frozen=True, slots=True)
class CheckedLine:
    """A line with what runs say of it.

    Attributes:
        better, worse: Of its tools, in how many runs each worked, and in how many it was called.
    """

    id: str
    text: str
    verdict: Verdict
    better: dict[ToolName, tuple[int, int]]
    worse: dict[ToolName, tuple[int, int]]

    @property
    def sentence(self) -> str:
        """The verdict, the line, and its numbers."""
        counts = [f"{tool} worked in {worked} of {called}" for tool, (worked, called) in self.better.items()]
        for tool, (worked, called) in self.worse.items():
            counts.append(f"{tool} failed in {called - worked} of {called}")
        shown = f" ({'; '.join(counts)})" if counts else ""
        return f"{self.verdict}: {self.text}{shown} [{self.id or 'by hand'}]"

    def to_json(self) -> Object:
        """In values that JSON can hold."""
        return asdict(self)


def lines_to_check(text: str, name: str) -> list[LineOfFile]:
    """The lessons of a file.

    Raises:
        InputError: it has none.
    """
    lines = lines_of_file(text, name)
    if not lines:
        raise InputError(f"{name} holds no lessons: `hepm report --write {name}` writes them between two markers.")
    return lines


def check_lines(
    lines: Sequence[LineOfFile],
    evidence: LiveEvidence,
    learn_content: Callable[[], Iterable[Principle]],
    without: Mapping[str, Collection[str]] | None = None,
) -> list[CheckedLine]:
    """Compute the evidence of lines anew by the runs of a memory.

    Args:
        learn_content: What runs teach of what calls need; asked only for a line that says nothing of the next tool.
        without: By the id of a lesson, runs that are not counted.
    """
    left_out = without or {}
    sample = evidence.valued()
    met = _decisions_met({line.claim for line in lines if line.claim is not None}, sample)
    taught: list[Principle] = []
    if any(line.claim is None and line.id for line in lines):
        taught = list(learn_content())
    checked: list[CheckedLine] = []
    for line in lines:
        if line.claim is not None:
            others = left_out.get(line.id, ())
            counted = [decision for decision in met[line.claim] if decision.run.id not in others]
            checked.append(_checked(line, line.claim, counted))
            continue
        found = next((principle for principle in taught if line.id and principle.id.startswith(line.id)), None)
        verdict: Verdict = "unchecked" if found is None else "supported"
        checked.append(CheckedLine(line.id, line.text, verdict, {}, {}))
    return checked


def _decisions_met(claims: Iterable[Claim], sample: RunSample) -> dict[Claim, list[Decision]]:
    """Of each claim the decisions in whose situation it holds, in order of arrival."""
    met: dict[Claim, list[Decision]] = {}
    at_place: defaultdict[CallPlace, list[tuple[Claim, Conditions]]] = defaultdict(list)
    for claim in claims:
        met[claim] = []
        # Whether the last call failed is part of the place.
        failed = FactCondition(FAILED, true=True) in claim.conditions.facts
        facts = tuple(fact for fact in claim.conditions.facts if fact.test.source != FAILED.source)
        conditions = replace(claim.conditions, facts=facts, after=())
        for after in claim.conditions.after or (START,):
            at_place[CallPlace(after, failed)].append((claim, conditions))
    names = list(sample.numbers)
    for decision in sample.decisions:
        asked = at_place.get(decision.place)
        if asked is None:
            continue
        known = Situation.before(decision, names).facts
        for claim, conditions in asked:
            if conditions.holds(known, (), environment=decision.run.environment):
                met[claim].append(decision)
    return met


def _checked(line: LineOfFile, claim: Claim, met: Sequence[Decision]) -> CheckedLine:
    by_tool = runs_by_tool(met)
    better = {tool: by_tool.get(tool, RunsOf()) for tool in claim.better}
    worse = {tool: by_tool.get(tool, RunsOf()) for tool in claim.worse}
    return CheckedLine(line.id, line.text, _verdict(better, worse), _counts(better), _counts(worse))


def _verdict(better: dict[ToolName, RunsOf], worse: dict[ToolName, RunsOf]) -> Verdict:
    tried = {tool: runs for tool, runs in better.items() if runs.tried >= FEWEST}
    failing = {tool: runs for tool, runs in worse.items() if runs.tried >= FEWEST_FAILED}
    if not tried and (better or not failing):
        return "not met"
    if any(runs.share < WORKS_FROM for runs in tried.values()):
        return "untrue"
    # What it speaks against works as often, or mostly.
    most = min((runs.share for runs in tried.values()), default=WORKS_FROM)
    if any(runs.share >= most for runs in failing.values()):
        return "untrue"
    return "supported"


def _counts(runs: dict[ToolName, RunsOf]) -> dict[ToolName, tuple[int, int]]:
    return {tool: (len(of_tool.worked), of_tool.called) for tool, of_tool in runs.items()}
