"""How the tools of a memory fare: errors and their trend, drift, refusals, other names, and unused tools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hepm.graph.rows import ToolRow
from hepm.graph.store import Store
from hepm.report.rows import ReportRow
from hepm.text import count_of, percent
from hepm.types import ToolName

OFTEN: Final = 0.05
"""Share of failed calls, or of failed runs, from which on a tool is remarkable."""
_UNUSED: Final = "offered and never called"
_NAMED: Final = 8
"""Unused tools that are named."""


def tool_rows(remarks: Mapping[ToolName, Sequence[str]]) -> list[ReportRow]:
    """A row for each remarkable tool; those of which only that they were never called is to be said share the last."""
    rows: list[ReportRow] = []
    unused: list[ToolName] = []
    for name, of_tool in remarks.items():
        if of_tool == [_UNUSED]:
            unused.append(name)
        elif of_tool:
            rows.append(ReportRow(name, f": {'; '.join(of_tool)}"))
    if unused:
        names = ", ".join(unused[:_NAMED])
        if len(unused) > _NAMED:
            names += f" and {len(unused) - _NAMED:,} more"
        number = count_of(len(unused), "tool")
        rows.append(ReportRow(f"{number} {_UNUSED}", f": {names}", counts={"tools": len(unused)}))
    return rows


def tool_remarks(store: Store, *, namespace: str) -> dict[ToolName, list[str]]:
    """What is remarkable of each tool, in words; those that have begun to fail first, then those with most errors."""
    rows = store.tools(namespace=namespace)
    names = [row.name for row in rows if row.calls]
    outcomes = store.latest_outcomes(names, namespace=namespace)
    drifts = store.drifts(names, namespace=namespace)
    refused = Counter[ToolName]()
    for after in store.refusals(namespace=namespace).values():
        refused |= after  # the most after one tool: a run may have been refused it after several
    rows.sort(key=lambda row: (not drifts.get(row.name), -row.errors, -refused[row.name], row.name))
    remarks: dict[ToolName, list[str]] = {}
    for row in rows:
        drift = drifts.get(row.name)
        remarks[row.name] = [str(drift)] if drift else []
        remarks[row.name] += _remarks(row, outcomes.get(row.name, ""), refused[row.name])
    return remarks


def _remarks(row: ToolRow, outcomes: str, refused: int) -> Iterator[str]:
    """What is to be said of a tool besides its drift.

    Args:
        outcomes: A 1 for each run in which every call failed, of those that say whether calls did.
    """
    failed = outcomes.count("1")
    if row.errors and (row.errors >= OFTEN * row.calls or failed >= OFTEN * len(outcomes)):
        yield f"{count_of(row.errors, 'call')} failed"
        if failed:
            runs, share = count_of(len(outcomes), "run"), percent(failed / len(outcomes))
            yield f"every call did in {failed:,} of {runs} ({share})"
    if refused:
        yield f"users refused it in {count_of(refused, 'run')}"
    if row.aliases:
        yield f"also called {', '.join(row.aliases)}"
    if not row.calls and not row.retired:
        yield _UNUSED
