"""A report as sections of rows, which the terminal, Markdown and the pages show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hepm.report.examples import ShownRun
from hepm.report.forks import Fork
from hepm.report.receipts import MemoryReceipts, WeekReceipt
from hepm.report.requests import HardRequests
from hepm.report.tools import ToolHealth
from hepm.report.waste import Waste
from hepm.text import CUT, count_of, cut, in_markdown, on_one_line, percent

if TYPE_CHECKING:
    from hepm.report.report import Report

SHOWN: Final = 8
"""Rows of a section, unless all are wanted."""
WASTE_SHOWN: Final = 3
"""Rows of each kind of waste, unless all are wanted."""
_ID_CHARS: Final = 40
_REQUEST_CHARS: Final = 60  # beside the step of a run
_MODELS: Final = 2  # that a fork names
_INDENT: Final = "  "
_LOST: Final = (
    "Where runs were lost (beyond what the alternative would have lost, with a 90 % interval; a call failed if its run "
    "did, and worked if it was right there)"
)
_WASTE: Final = "Waste"
_SPOKEN: Final = "What memory did"


@dataclass(frozen=True, slots=True)
class ReportRow:
    """A row: what it is about, what is said of it, further lines, and runs to open."""

    name: str
    text: str = ""
    below: Sequence[str] = ()
    runs: Sequence[ShownRun] = ()

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


def sections_of(report: Report, *, most_waste: int | None = None) -> Iterator[ReportSection]:
    """The sections behind the one of forks that have anything to say; of waste so much of each kind."""
    tools = [health for health in report.tools if health.remarkable]
    advice = list(map(ReportRow, report.advice))
    latest = f"in the latest {count_of(report.waste.runs, 'run')}"
    sections = [
        ReportSection("Requests that fail", "", list(map(_requests_row, report.requests))),
        ReportSection(_WASTE, latest, list(_waste_rows(report.waste, most_waste))),
        ReportSection("Tools", "", list(map(_tool_row, tools))),
        ReportSection(_SPOKEN, "", list(_spoken_rows(report.spoken))),
        ReportSection("What to tell the agent", "--write AGENTS.md writes these lines", advice),
    ]
    return (section for section in sections if section.rows)


def _texts(report: Report, every: bool) -> Iterator[tuple[str, Sequence[Sequence[str]], int]]:
    """Of each section its heading, the lines of its rows, and how many rows are left out."""
    if report.forks:
        shown = report.forks if every else report.forks[:SHOWN]
        yield _LOST, list(map(_fork_lines, shown)), len(report.forks) - len(shown)
    for section in sections_of(report, most_waste=None if every else WASTE_SHOWN):
        heading = f"{section.heading} ({section.remark})" if section.remark else section.heading
        rows = section.rows if every or section.heading in (_WASTE, _SPOKEN) else section.rows[:SHOWN]
        # Of waste, any run of many is as good as another: pages name them.
        lines = [row.lines if section.heading == _WASTE else _with_run(row) for row in rows]
        yield heading, lines, len(section.rows) - len(rows)


def terminal_lines(report: Report, *, every: bool = False) -> Iterator[str]:
    """The report for a terminal."""
    yield on_one_line(report.sentence)
    for heading, rows, left_out in _texts(report, every):
        yield ""
        yield heading
        for first, *further in rows:
            yield on_one_line(f"{_INDENT}{first}")
            for line in further:
                yield on_one_line(f"{3 * _INDENT}{line}")
        if left_out:
            yield f"{_INDENT}and {left_out:,} more: --all"


def markdown_lines(report: Report, *, every: bool = False) -> Iterator[str]:
    """The report as Markdown; texts of runs can form no links, HTML or comments in it."""
    yield f"# Where agents go wrong: {in_markdown(report.namespace)}"
    yield ""
    yield in_markdown(report.sentence)
    for heading, rows, left_out in _texts(report, every):
        yield from ("", f"## {heading}", "")
        for first, *further in rows:
            yield f"- {in_markdown(first)}"
            for line in further:
                yield f"{_INDENT}- {in_markdown(line)}"
        if left_out:
            yield f"- and {left_out:,} more"


def _fork_lines(fork: Fork) -> list[str]:
    about = [fork.when]
    if fork.models:
        about.append(f"of {', '.join(fork.models[:_MODELS])}")
    rows = [f"{fork.lost} lost {fork.where}", fork.counts, fork.answer, _joined(about)]
    for step in fork.steps:
        run = _short(step.run.id)
        if step.run.request:
            run += f', "{cut(step.run.request, _REQUEST_CHARS)}"'
        before = f"{step.before} → " if step.before else ""
        rows.append(f"{step.side}: {run}: {before}{step.call}")
    return [row for row in rows if row]


def _joined(parts: Iterable[str]) -> str:
    return "; ".join(filter(None, parts))


def _short(id: str) -> str:
    return id if len(id) <= _ID_CHARS else id[: _ID_CHARS - 1] + CUT


def _requests_row(kind: HardRequests) -> ReportRow:
    how = f": {kind.failed:,} of {kind.runs:,} failed (others: {percent(kind.others)})"
    if kind.never_solved:
        how = f": never solved in {count_of(kind.runs, 'run')} (others fail in {percent(kind.others)})"
    tried = [f"tried: {', '.join(kind.tried)}"] if kind.tried else []
    return ReportRow(kind.name, how, tried, kind.shown)


def _with_run(row: ReportRow) -> list[str]:
    """A row as text, with the first of its runs."""
    lines = row.lines
    for run in row.runs[:1]:
        lines.append(f'run {_short(run.id)}, "{run.request}"' if run.request else f"run {_short(run.id)}")
    return lines


def _waste_rows(waste: Waste, most: int | None) -> Iterator[ReportRow]:
    for rows in (waste.repeated, waste.errors, waste.left_out):
        for row in rows[:most]:
            below = [row.went_on] if row.went_on else []
            yield ReportRow(row.tool, row.why, below, row.shown)
    for recipe in waste.recipes[:most]:
        yield ReportRow("what solved it", f": {recipe}")


def _tool_row(health: ToolHealth) -> ReportRow:
    parts = [health.drift]
    if health.errors:
        parts.append(
            f"{health.errors:,} of {count_of(health.calls, 'call')} failed ({percent(health.errors / health.calls)})"
        )
        failed, latest = health.latest
        if latest:
            parts.append(f"every call did in {failed} of the latest {count_of(latest, 'run')}")
    if health.refused:
        parts.append(f"refused {count_of(health.refused, 'time')}")
    if health.aliases:
        parts.append(f"also called {', '.join(health.aliases)}")
    if health.uncalled:
        parts.append("offered and never called")
    return ReportRow(health.name, f": {_joined(parts)}")


def _spoken_rows(spoken: MemoryReceipts) -> Iterator[ReportRow]:
    if spoken.sentence:
        yield ReportRow(spoken.sentence)
    if spoken.receipt:
        yield ReportRow(spoken.receipt, below=list(map(_week, spoken.weeks)))
    if spoken.hinted:
        share = f"{spoken.followed:,} of {count_of(spoken.hints, 'hint')} followed"
        yield ReportRow(
            f"a hint named a tool in {spoken.hinted:,} of the latest {count_of(spoken.read, 'run')}; {share}"
        )


def _week(week: WeekReceipt) -> str:
    line = f"week of {week.monday}: {week.with_memory:,} with memory, {week.succeeded:,} succeeded"
    if week.controls:
        line += f"; without memory {week.controls_succeeded:,} of {week.controls:,}"
    if week.turned is not None:
        value, low, high = week.turned
        line += f"; about {value:+,.0f} ({low:+,.0f} to {high:+,.0f})"
    return line
