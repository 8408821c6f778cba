"""Rows of a report, which the terminal, Markdown, JSON and the pages show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hepm.report.examples import ShownRun


@dataclass(frozen=True, slots=True)
class ReportRow:
    """A row: what it is about, what is said of it, further lines, and runs to open.

    Attributes:
        text: Goes on from the name.
        kind: Of rows of one section that are of several kinds.
        counts: The numbers in the words, for programs.
    """

    name: str
    text: str = ""
    below: Sequence[str] = ()
    runs: Sequence[ShownRun] = ()
    kind: str = ""
    counts: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def lines(self) -> list[str]:
        """As text, without runs."""
        return [self.name + self.text, *self.below]


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A heading with a remark, and rows."""

    heading: str
    remark: str
    rows: Sequence[ReportRow]
