"""A report as text: for a terminal, and as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from hepm.report.forks import Fork
from hepm.report.receipts import MemoryReceipts
from hepm.report.report import Report
from hepm.report.requests import HardRequests
from hepm.report.tools import ToolHealth
from hepm.report.waste import CostOfCalls, EndedErrors, Waste
from hepm.text import CUT, count_of, cut, in_markdown, on_one_line

SHOWN: Final = 8
"""Rows of a section, unless all are wanted."""
WASTE_SHOWN: Final = 3
"""Rows of each kind of waste, unless all are wanted."""
_ID_CHARS: Final = 40
_REQUEST_CHARS: Final = 60  # beside the step of a run
_MODELS: Final = 2  # that a fork names
_INDENT: Final = "  "


class ReportSection(NamedTuple):
    """A heading with rows, each a first line and lines below it, and how many rows are left out."""

    heading: str
    rows: Sequence[Sequence[str]]
    left_out: int = 0


def sections_of(report: Report, *, every: bool = False) -> Iterator[ReportSection]:
    """The sections of a report that have anything to say, the most useful one first."""
    most = None if every else SHOWN
    lost = (
        "Where runs were lost (beyond what the alternative would have lost, with a 90 % interval; a call failed if its "
        "run did, and worked if it was right there)"
    )
    yield from _section(lost, report.forks, _fork_row, most)
    yield from _section("Requests that fail", report.requests, _requests_row, most)
    waste = list(_waste_rows(report.waste, None if every else WASTE_SHOWN))
    yield from _section(f"Waste, in the latest {count_of(report.waste.runs, 'run')}", waste, list, None)
    tools = [health for health in report.tools if health.remarkable]
    yield from _section("Tools", tools, _tool_row, most)
    yield from _section("What memory did", list(_spoken_rows(report.spoken)), list, None)
    advice = [[line] for line in report.advice]
    yield from _section("What to tell the agent (--write AGENTS.md writes these lines)", advice, list, most)


def _section(
    heading: str, items: Sequence[object], row: Callable[..., Sequence[str]], most: int | None
) -> Iterator[ReportSection]:
    shown = items[:most]
    if shown:
        yield ReportSection(heading, [row(item) for item in shown], len(items) - len(shown))


def terminal_lines(report: Report, *, every: bool = False) -> Iterator[str]:
    """The report for a terminal."""
    yield on_one_line(report.sentence)
    for section in sections_of(report, every=every):
        yield ""
        yield section.heading
        for first, *further in section.rows:
            yield on_one_line(f"{_INDENT}{first}")
            for line in further:
                yield on_one_line(f"{3 * _INDENT}{line}")
        if section.left_out:
            yield f"{_INDENT}and {section.left_out:,} more: --all"


def markdown_lines(report: Report, *, every: bool = False) -> Iterator[str]:
    """The report as Markdown; texts of runs can form no links, HTML or comments in it."""
    yield f"# Where agents go wrong: {in_markdown(report.namespace)}"
    yield ""
    yield in_markdown(report.sentence)
    for section in sections_of(report, every=every):
        yield from ("", f"## {section.heading}", "")
        for first, *further in section.rows:
            yield f"- {in_markdown(first)}"
            for line in further:
                yield f"{_INDENT}- {in_markdown(line)}"
        if section.left_out:
            yield f"- and {section.left_out:,} more"


def _fork_row(fork: Fork) -> list[str]:
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


def _requests_row(kind: HardRequests) -> list[str]:
    if kind.never_solved:
        rows = [f"{kind.name}: never solved in {count_of(kind.runs, 'run')} (others fail in {kind.others:.0%})"]
    else:
        rows = [f"{kind.name}: {kind.failed:,} of {kind.runs:,} failed (others: {kind.others:.0%})"]
    if kind.tried:
        rows.append(f"tried: {', '.join(kind.tried)}")
    for run in kind.shown[:1]:
        # A run may have no words of a user.
        quoted = f'"{run.request}"' if run.request else ""
        rows.append(_joined([quoted, f"failed: {_short(run.id)}"]))
    return rows


def _cost(cost: CostOfCalls) -> str:
    """Such as "12 calls in 4 runs, 31 s, about 2,000 tokens"."""
    parts = [f"{count_of(cost.calls, 'call')} in {count_of(cost.runs, 'run')}"]
    if cost.seconds is not None:
        parts.append(f"{cost.seconds:,.0f} s")
    if cost.tokens:
        parts.append(f"about {count_of(cost.tokens, 'token')} of results")
    return ", ".join(parts)


def _waste_rows(waste: Waste, most: int | None) -> Iterator[list[str]]:
    for row in waste.repeated[:most]:
        yield [f"{row.tool} called three times or more without change: {_cost(row.cost)} too many"]
    for ended in waste.errors[:most]:
        yield _error_row(ended)
    for row in waste.left_out[:most]:
        yield [f"{row.tool}: {_cost(row.cost)}; successful runs of these tasks do without"]
    for recipe in waste.recipes[:most]:
        yield [f"what solved it: {recipe}"]


def _error_row(ended: EndedErrors) -> list[str]:
    message = f' "{ended.message}"' if ended.message else ""
    first = f"{ended.tool} failed{message}: {_cost(ended.cost)}; {ended.failed:,} of these runs failed"
    ends = [f"{end.how} in {count_of(end.runs, 'run')}, of which {end.succeeded:,} succeeded" for end in ended.ends]
    return [first, f"it {'; '.join(ends)}"]


def _tool_row(health: ToolHealth) -> list[str]:
    parts = [health.drift]
    if health.errors:
        parts.append(
            f"{health.errors:,} of {count_of(health.calls, 'call')} failed ({health.errors / health.calls:.0%})"
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
    return [f"{health.name}: {_joined(parts)}"]


def _spoken_rows(spoken: MemoryReceipts) -> Iterator[list[str]]:
    if spoken.sentence:
        yield [spoken.sentence]
    if spoken.receipt:
        yield [spoken.receipt, *_weeks(spoken)]
    if spoken.hinted:
        share = f"{spoken.followed:,} of {count_of(spoken.hints, 'hint')} followed"
        yield [f"a hint named a tool in {spoken.hinted:,} of the latest {count_of(spoken.read, 'run')}; {share}"]


def _weeks(spoken: MemoryReceipts) -> Iterator[str]:
    for week in spoken.weeks:
        line = f"week of {week.monday}: spoke in {week.spoke:,}, {week.succeeded:,} succeeded"
        if week.controls:
            line += f"; without memory {week.controls_succeeded:,} of {week.controls:,}"
        if week.turned is not None:
            value, low, high = week.turned
            line += f"; about {value:+,.0f} ({low:+,.0f} to {high:+,.0f})"
        yield line
