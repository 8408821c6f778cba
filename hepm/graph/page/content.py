"""What a page shows: a part of the tool graph, in a fixed order, with the texts behind it cut."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import networkx as nx

from hepm.errors import InputError
from hepm.types import START, Evidence, ToolName

LABEL_CHARACTERS: Final = 36
START_LABEL: Final = "start of a run"
# What one tool or edge keeps in the page, so that a page of 200 tools has a few MB.
SUMMARIES: Final = 6
RUNS: Final = 30
LESSONS: Final = 8
TEXT_CHARACTERS: Final = 600


@dataclass(frozen=True, slots=True)
class PageTool:
    """A node of the page."""

    name: ToolName
    label: str
    calls: int
    errors: int
    description: str
    lessons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PageEdge:
    """An edge between indices into the page's tools, with the first of `all_summaries` and of `all_runs`."""

    source: int
    target: int
    support: int
    failures: int
    weight: float
    failure_share: float
    summaries: tuple[str, ...]
    runs: tuple[str, ...]
    all_summaries: int
    all_runs: int


@dataclass(frozen=True, slots=True)
class PageContent:
    """Nodes and edges in the order they are drawn: START, then by calls; edges by source, strongest first.

    Attributes:
        tool_count: Tools without START.
        focus: Index of the tool whose neighbourhood this is; None for the whole graph.
        left_out: Number of tools beyond `max_tools`.
        outcomes: Successful and failed runs of the whole log; colours are relative to their ratio.
    """

    tools: tuple[PageTool, ...]
    edges: tuple[PageEdge, ...]
    tool_count: int
    focus: int | None
    left_out: int
    outcomes: tuple[int, int]


def read_content(
    graph: nx.DiGraph[ToolName],
    *,
    evidence: Callable[[Sequence[tuple[ToolName, ToolName]]], Sequence[Evidence]],
    lessons: Mapping[ToolName, Sequence[str]],
    outcomes: tuple[int, int],
    focus: ToolName | None = None,
    max_tools: int | None = None,
) -> PageContent:
    """The part of a graph of `Memory.graph` that a page shows, whatever order nodes and edges were added in.

    Args:
        evidence: Returns runs and summaries behind edges, in their order.
        lessons: Lessons about each tool, the best supported first.
        focus: Keep this tool, the tools before and after it, and the edges among them.
        max_tools: Keep the most called; in a neighbourhood, the tools with the strongest edge to its centre.
    Raises:
        InputError: `focus` is not in the graph.
    """
    calls: dict[ToolName, int] = {name: node["calls"] for name, node in graph.nodes(data=True)}
    strength = dict.fromkeys(calls, 0.0)
    if focus is not None:
        if focus not in calls:
            raise InputError(f"no tool {short_label(focus)!r} in this graph{_close_matches(focus, calls)}")
        strength = {focus: 1.0}
        for a, b, edge in graph.edges(data=True):
            if focus in {a, b}:
                other = b if a == focus else a
                strength[other] = max(strength.get(other, 0.0), edge["weight"])
    ordered = sorted(strength.keys() - {START}, key=lambda n: (n != focus, -strength[n], -calls[n], n))
    kept = sorted(ordered[:max_tools], key=lambda n: (-calls[n], n))
    names = [START, *kept] if START in strength and kept else kept
    index = {name: number for number, name in enumerate(names)}
    drawn = [edge for edge in graph.edges if index.keys() >= {*edge}]
    edges = [
        _edge(index[a], index[b], graph.edges[a, b], behind)
        for (a, b), behind in zip(drawn, evidence(drawn), strict=True)
    ]
    return PageContent(
        tools=tuple(_tool(name, graph.nodes[name], lessons.get(name, ())) for name in names),
        edges=tuple(sorted(edges, key=lambda e: (e.source, -e.weight, -e.support, e.target))),
        tool_count=len(kept),
        focus=None if focus is None else index.get(focus),
        left_out=len(ordered) - len(kept),
        outcomes=outcomes,
    )


def short_label(name: ToolName) -> str:
    """A name for a label: on one line, without invisible characters, its middle cut if it is long."""
    # Control, format (also those that turn the writing direction), surrogate and private characters have no shape.
    shown = "".join(" " if c.isspace() else c for c in name[:2000] if c.isspace() or unicodedata.category(c)[0] != "C")
    line = " ".join(shown.split()) or "(no visible name)"
    head = LABEL_CHARACTERS * 2 // 3
    return line if len(line) <= LABEL_CHARACTERS else line[:head] + "…" + line[-(LABEL_CHARACTERS - head - 1) :]


def _close_matches(name: ToolName, known: Mapping[ToolName, object]) -> str:
    by_lower = {other.lower(): other for other in sorted(known)}
    found = difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.5)
    if not found:
        return f"; it has {len(known)} tools, none of a similar name"
    return f". Close to it: {', '.join(short_label(by_lower[lower]) for lower in found)}"


def _tool(name: ToolName, node: Mapping[str, Any], lessons: Sequence[str]) -> PageTool:
    label = START_LABEL if name == START else short_label(name)
    return PageTool(name, label, node["calls"], node["errors"], node["description"], _cut(lessons[:LESSONS]))


def _edge(source: int, target: int, edge: Mapping[str, Any], behind: Evidence) -> PageEdge:
    return PageEdge(
        source=source,
        target=target,
        support=edge["support"],
        failures=edge["failures"],
        weight=round(edge["weight"], 6),  # the last bits of a sum must not change the page
        failure_share=round(edge["failure_share"], 6),
        summaries=_cut(behind.summaries[:SUMMARIES]),
        runs=_cut(behind.runs[:RUNS]),
        all_summaries=len(behind.summaries),
        all_runs=len(behind.runs),
    )


def _cut(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(text if len(text) <= TEXT_CHARACTERS else text[: TEXT_CHARACTERS - 1] + "…" for text in texts)
