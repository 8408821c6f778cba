"""What a run did otherwise than those of its task that ended otherwise, told in words and as triples.

The words name tools and nothing else: what users and tools said is in no lesson.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hepm.experience.distilling.partings import Sides, Way, part
from hepm.experience.distilling.transcript import listed
from hepm.experience.lessons import EXTRACTIVE, FAILS_AFTER, FOLLOWED_BY
from hepm.graph.lessons.rows import LessonRow, Triple
from hepm.types import START, ToolName

_TRIPLES: Final = 3  # of either kind

_NOTHING: Final = re.compile(
    r"\b(called|calling|than) (no tool|nothing more)\b|: no tool\.$|\banswering without a tool\b"
    r"|the tools did not decide\.$"
)


@dataclass(frozen=True, slots=True)
class Contrast:
    """Where runs of one task that succeeded and that failed part, seen from one of them.

    Attributes:
        at: Which of its moves parts, from 0; the number of its moves where it ended there.
        after: Tools of the move before, by name; empty where they part at the first.
        better: Tools that successful ones alone called there, by name.
        worse: Tools that failed ones alone called there.
        ended: Whether one of them called nothing more from there on.
        alike: Whether they are runs with like requests, not of one task.
    """

    at: int
    after: tuple[ToolName, ...]
    better: tuple[ToolName, ...]
    worse: tuple[ToolName, ...]
    ended: bool = False
    alike: bool = False

    @property
    def tells(self) -> bool:
        """Whether a tool stands against another, or against the end.

        Else all called the same, or one of them called more at once, which the other may have done a turn later.
        """
        return self.opposes or (self.ended and bool(self.better or self.worse))

    @property
    def opposes(self) -> bool:
        """Whether a tool stands against another: what a rule can be drawn from."""
        return bool(self.better and self.worse)

    @property
    def same(self) -> bool:
        """Whether all called the same to the end."""
        return self.ended and not (self.better or self.worse)

    @property
    def tools(self) -> tuple[ToolName, ...]:
        """All that it is about, the better ones first."""
        return tuple(dict.fromkeys((*self.better, *self.worse, *self.after)))

    @property
    def triples(self) -> tuple[Triple, ...]:
        """What came after what, and what fails there."""
        before = self.after or (START,)
        good = [Triple(source, FOLLOWED_BY, tool) for tool in self.better for source in before]
        bad = [Triple(tool, FAILS_AFTER, source) for tool in self.worse for source in before]
        return (*good[:_TRIPLES], *bad[:_TRIPLES])


def contrast_of(way: Way, others: Sequence[Way], *, succeeded: bool, alike: bool = False) -> Contrast | None:
    """How a way differs from those that ended otherwise; None where there are none.

    Several of them may go on in several ways from where it leaves them. One where tool stands against tool tells most,
    then one where either side ends; of such the way that most of them went counts, of equal ones the first by name.
    """
    parted = part(way, others)
    if parted is None:
        return None
    at = parted.at
    shorter = at == len(way)
    followed = [other for other in others if list(other[:at]) == list(way[:at])]
    seen = Counter((sides, shorter or len(other) == at) for sides, other in zip(parted.sides, followed, strict=True))
    chosen = min(seen, key=lambda found: (_rank(*found), -seen[found], _names(found[0])))
    theirs, own = chosen[0]
    better, worse = (own, theirs) if succeeded else (theirs, own)
    after = sorted(way[at - 1]) if at else []
    return Contrast(at, tuple(after), tuple(sorted(better)), tuple(sorted(worse)), ended=chosen[1], alike=alike)


def place(after: Sequence[ToolName]) -> str:
    """Where in a run: "after a and b", whichever order they are given in, or "at the start"."""
    return f"after {listed(sorted(set(after)))}" if after else "at the start"


def lesson_of(contrast: Contrast, *, succeeded: bool) -> str:
    """What one run teaches, as observed: that tools were called where runs ended otherwise is no proof of a cause."""
    how = "failed" if succeeded else "succeeded"
    runs = "runs with like requests" if contrast.alike else "runs of this task"
    if contrast.same:
        return f"{runs.capitalize()} that {how} called the same tools in the same order: the tools did not decide."
    where = place(contrast.after)
    where = where[0].upper() + where[1:]
    better, worse = _called(contrast, contrast.better), _called(contrast, contrast.worse)
    if succeeded:
        return f"{where}, this run, which succeeded, called {better}; {runs} that failed called {worse}."
    return f"{where}, {runs} that succeeded called {better}; this one, which failed, called {worse}."


def rule_of(contrast: Contrast, *, succeeded: bool) -> str:
    """The same of one that opposes, as a rule that other tasks may give too, to follow the name of an environment."""
    better, worse = listed(contrast.better), listed(contrast.worse)
    if succeeded:
        return f"{place(contrast.after)}, calling {better} rather than {worse} led to success"
    return f"{place(contrast.after)}, calling {worse} rather than {better} ended in failure"


def sides_of(lesson: str, tools: Sequence[ToolName]) -> tuple[frozenset[ToolName], frozenset[ToolName]]:
    """Which of these tools a sentence of `lesson_of` tells of as called by runs that succeeded, and that failed."""
    named: dict[str, frozenset[ToolName]] = {"succeeded": frozenset(), "failed": frozenset()}
    for clause in lesson.split(";"):
        for how in named:
            if (found := re.search(rf"\b{how},? called (.+?)\.?$", clause)) is not None:
                names = set(re.split(r", | and ", found[1]))
                named[how] = frozenset(tool for tool in tools if listed([tool]) in names)
    return named["succeeded"], named["failed"]


def says_nothing(row: LessonRow) -> bool:
    """Whether a lesson that no model wrote names no tool to call or to keep away from: it is kept, and never told."""
    text = str(row.properties.get("lesson", row.text))
    return row.properties.get("distilled_by") == EXTRACTIVE and _NOTHING.search(text) is not None


def _called(contrast: Contrast, tools: Sequence[ToolName]) -> str:
    return listed(tools) or ("nothing more" if contrast.after else "no tool")


def _rank(sides: Sides, ended: bool) -> int:
    return 0 if sides.theirs and sides.own else 1 if ended else 2


def _names(sides: Sides) -> tuple[list[ToolName], list[ToolName]]:
    return sorted(sides.theirs), sorted(sides.own)
