"""A report as lines: for a terminal, or as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from typing import TYPE_CHECKING, Final

from hepm.report.examples import REQUEST_CHARS, ShownRun
from hepm.report.forks import Fork
from hepm.report.rows import ReportRow, ReportSection
from hepm.text import cut, cut_off, in_markdown, on_one_line

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
    "Where runs were lost (beyond what the alternative would have lost, with a 90 % interval; a call worked or failed "
    "as its run did)"
)
WASTE: Final = "Waste"
SPOKEN: Final = "What memory did"


def _texts(report: Report, every: bool) -> Iterator[tuple[str, Sequence[Sequence[str]], int]]:
    """Of each section its heading, the lines of its rows, and how many rows are left out."""
    if report.forks:
        shown = report.forks if every else report.forks[:SHOWN]
        yield _LOST, list(map(_fork_lines, shown)), len(report.forks) - len(shown)
    for section in report.sections:
        heading = f"{section.heading} ({section.remark})" if section.remark else section.heading
        rows = _shown_rows(section, every)
        # Of waste, any run of many is as good as another: pages name them.
        lines = [row.lines if section.heading == WASTE else _with_run(row) for row in rows]
        yield heading, lines, 0 if section.heading == WASTE else len(section.rows) - len(rows)


def _shown_rows(section: ReportSection, every: bool) -> Sequence[ReportRow]:
    """The first rows, of waste those of each kind, unless all are wanted."""
    if every or section.heading == SPOKEN:
        return section.rows
    if section.heading != WASTE:
        return section.rows[:SHOWN]
    shown: list[ReportRow] = []
    for _, rows in groupby(section.rows, key=lambda row: row.kind):
        shown += islice(rows, WASTE_SHOWN)
    return shown


def report_lines(report: Report, *, every: bool = False, markdown: bool = False) -> Iterator[str]:
    """The report for a terminal, or as Markdown, in which texts of runs can form no links, HTML or comments."""
    shown, heading_mark, row_mark, below_mark, more = on_one_line, "", _INDENT, 3 * _INDENT, ": --all"
    if markdown:
        shown, heading_mark, row_mark, below_mark, more = in_markdown, "## ", "- ", f"{_INDENT}- ", ""
        yield f"# Where agents go wrong: {shown(report.namespace)}"
        yield ""
    yield shown(report.sentence)
    for heading, rows, left_out in _texts(report, every):
        yield ""
        yield heading_mark + heading
        if markdown:
            yield ""
        for first, *further in rows:
            yield row_mark + shown(first)
            for line in further:
                yield below_mark + shown(line)
        if left_out:
            yield f"{row_mark}and {left_out:,} more{more}"


def _fork_lines(fork: Fork) -> list[str]:
    about = [fork.when]
    if fork.models:
        about.append(f"of {', '.join(fork.models[:_MODELS])}")
    rows = [f"{fork.lost} lost {fork.where}", fork.counts, "; ".join(filter(None, about))]
    for side, tallies in (("failed", fork.mistakes), ("worked", fork.ways)):
        for tally in tallies[:1]:
            if tally.step is not None:
                before = ""
                if tally.step.before:
                    before = f"{tally.step.before} → "
                rows.append(f"{side}: {_named(tally.shown[0], _REQUEST_CHARS)}: {before}{tally.step.call}")
    return [row for row in rows if row]


def _named(run: ShownRun, request_chars: int = REQUEST_CHARS) -> str:
    """A run by its id, cut, and its request: 'desk-7, "return the lamp"'."""
    id = cut_off(run.id, _ID_CHARS)
    if run.request:
        return f'{id}, "{cut(run.request, request_chars)}"'
    return id


def _with_run(row: ReportRow) -> list[str]:
    """A row as text, with the first of its runs."""
    return [*row.lines, *[f"run {_named(run)}" for run in row.runs[:1]]]
