"""Whether runs still support the lines of a file such as AGENTS.md: the evidence of each, computed anew."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from hepm.errors import InputError
from hepm.evidence.decisions import CallPlace, Decision
from hepm.evidence.rules import FAILED, FEWEST, RunsOf, runs_by_tool
from hepm.evidence.upkeep import LiveEvidence, RunSample
from hepm.experience.conditions import Conditions, FactCondition
from hepm.experience.counted import advising, runs_to_count
from hepm.experience.lesson_bank import LessonBank
from hepm.experience.lesson_files import Claim, LessonFile, LineOfFile
from hepm.experience.lessons import Principle
from hepm.experience.recipes import recipes_by_project
from hepm.graph.lessons.rows import LessonRow, StoredLesson
from hepm.types import START, ToolName, act_in_words

Verdict: TypeAlias = Literal["supported", "untrue", "not met", "changed by hand", "unchecked"]
"""Runs bear a line out; they do not; too few met its situation; its words are no longer hepm's; or it says nothing that
can be counted.
"""
Counts: TypeAlias = dict[ToolName, tuple[int, int]]
"""Of tools, in how many runs each worked, and in how many it was called."""
WORKS_FROM: Final = 0.5
"""Share of the runs that did what a line says, below which it is untrue."""


@dataclass(frozen=True, slots=True)
class CheckedLine:
    """A line with what runs say of it.

    Attributes:
        better, worse: Of its tools, in how many runs each worked, and in how many it was called. Of a line that was
            changed by hand, of the tools that it named before.
    """

    id: str
    text: str
    verdict: Verdict
    better: Counts
    worse: Counts

    @property
    def sentence(self) -> str:
        """The verdict, the line, and its numbers."""
        counts = [
            f"{act_in_words(tool)} worked in {worked} of {called}" for tool, (worked, called) in self.better.items()
        ]
        for tool, (worked, called) in self.worse.items():
            counts.append(f"{act_in_words(tool)} failed in {called - worked} of {called}")
        shown = f" ({'; '.join(counts)})" if counts else ""
        return f"{self.verdict}: {self.text}{shown} [{self.id or 'by hand'}]"


def lines_to_check(text: str, name: str) -> Sequence[LineOfFile]:
    """The lessons of a file.

    Raises:
        InputError: it has none.
    """
    lines = LessonFile.read(text, name).lines
    if not lines:
        raise InputError(f"{name} holds no lessons: `hepm report --write {name}` writes them between two markers.")
    return lines


def check_lines(
    lines: Sequence[LineOfFile], bank: LessonBank, evidence: LiveEvidence, *, namespace: str
) -> list[CheckedLine]:
    """Compute the evidence of lines anew by the stored runs of a namespace.

    Args:
        evidence: Of this namespace.
    """
    met = _decisions_met({line.claim for line in lines if line.claim is not None}, evidence.valued())
    taught: list[Principle] = []
    # Of a line that says nothing of the next tool, whether runs still teach it.
    if any(line.claim is None and line.id for line in lines):
        taught = recipes_by_project(runs_to_count(bank, namespace))
    checked: list[CheckedLine] = []
    for line in lines:
        verdict: Verdict = "unchecked"
        better: Counts = {}
        worse: Counts = {}
        if line.claim is not None:
            verdict, better, worse = _counted(line.claim, met[line.claim])
        elif line.id and any(principle.id.startswith(line.id) for principle in taught):
            verdict = "supported"
        # Words that a person changed may say more than was counted, or the opposite.
        if line.edited and line.id:
            verdict = "changed by hand"
        checked.append(CheckedLine(line.id, line.text, verdict, better, worse))
    return checked


def confirmed(lessons: Sequence[StoredLesson], evidence: LiveEvidence, fewest: int) -> dict[str, Principle]:
    """Of lessons, those that runs bear out that did not teach them, by id: restated in hepm's own words.

    The words of a model may say more than its triples, which are what can be counted.

    Args:
        fewest: How many such runs each of its tools needs.
    """
    claims: list[tuple[LessonRow, Claim]] = []
    for stored in lessons:
        claim = Claim.of(stored.row)
        if claim is not None:
            claims.append((stored.row, claim))
    if not claims:
        return {}
    met = _decisions_met({claim for _, claim in claims}, evidence.valued())
    restated: dict[str, Principle] = {}
    for row, claim in claims:
        verdict, by_better, by_worse = _counted(claim, met[claim], without=row.run_ids)
        better = [tool for tool, (worked, _) in by_better.items() if worked >= fewest]
        worse = [tool for tool, (worked, called) in by_worse.items() if called - worked >= fewest]
        if verdict == "supported" and (better or (worse and not by_better)):
            worked, tried = (by_better | by_worse)[(better or worse)[0]]
            conditions = replace(Conditions.read(row.properties), preconditions=())
            counted = advising(better, worse, conditions, row.run_ids, tried=tried, worked=worked)
            restated[row.id] = replace(counted, distilled_by=str(row.properties["distilled_by"]))
    return restated


def _counted(claim: Claim, met: Iterable[Decision], without: Collection[str] = ()) -> tuple[Verdict, Counts, Counts]:
    """What decisions in its situation, but of some runs, say of a claim; and of the tools that it names."""
    by_tool = runs_by_tool([decision for decision in met if decision.run.id not in without])
    better = {tool: by_tool.get(tool, RunsOf()) for tool in claim.better}
    worse = {tool: by_tool.get(tool, RunsOf()) for tool in claim.worse}
    return _verdict(better, worse), _counts(better), _counts(worse)


def _decisions_met(claims: Iterable[Claim], sample: RunSample) -> dict[Claim, list[Decision]]:
    """Of each claim the decisions in whose situation it holds, in order of arrival."""
    met: dict[Claim, list[Decision]] = {}
    at_place: defaultdict[CallPlace, list[tuple[Claim, Conditions]]] = defaultdict(list)
    for claim in claims:
        met[claim] = []
        conditions = claim.conditions
        # Whether the last call failed is part of the place.
        failed = FactCondition(FAILED, true=True) in conditions.facts
        facts = tuple(fact for fact in conditions.facts if fact.test.source != FAILED.source)
        conditions = replace(conditions, facts=facts, after=())
        for after in claim.after or (START,):
            at_place[CallPlace(after, failed)].append((claim, conditions))
    names = list(sample.numbers)
    for decision in sample.turns:
        here = at_place.get(decision.place)
        if here is None:
            continue
        known = decision.facts(names)
        for claim, conditions in here:
            if conditions.holds(known, (), environment=decision.run.environment):
                met[claim].append(decision)
    return met


def _verdict(better: dict[ToolName, RunsOf], worse: dict[ToolName, RunsOf]) -> Verdict:
    tried = [runs for runs in better.values() if runs.tried >= FEWEST]
    failing = [runs for runs in worse.values() if runs.called >= FEWEST]
    if not tried and (better or not failing):
        return "not met"
    if any(runs.share < WORKS_FROM for runs in tried):
        return "untrue"
    # What it speaks against works as often, and mostly: by how runs ended, as few may not show which call lost them.
    least = min((len(runs.won) / runs.called for runs in tried), default=0.0)
    if any(len(runs.won) >= max(least, WORKS_FROM) * runs.called for runs in failing):
        return "untrue"
    return "supported"


def _counts(runs: dict[ToolName, RunsOf]) -> Counts:
    return {tool: (len(of_tool.won), of_tool.called) for tool, of_tool in runs.items()}
