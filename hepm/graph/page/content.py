"""What a page shows: a NetworkX graph, read with tolerance, cut to what was asked for, and put in a fixed order."""

from __future__ import annotations

import difflib
import math
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from pathlib import Path
from typing import Any, Final

import networkx as nx

from hepm.errors import InputError
from hepm.types import START, Evidence, ToolName

LABEL_CHARACTERS: Final = 36
"""Longest name written beside a node; the panel has the whole."""
START_LABEL: Final = "start of a run"
"""What START is called; its diamond tells it from a tool of that name."""
SUMMARIES: Final = 6
RUNS: Final = 30
LESSONS: Final = 8
SUMMARY_CHARACTERS: Final = 600
"""What one edge keeps in the page; how many there are is told. A page of 200 tools stays a few MB."""


@dataclass(frozen=True, slots=True)
class PageReport:
    """What was written.

    Attributes:
        tools: Tools drawn; START is not one.
        edges: Edges in the page, those from START included.
        bytes: Size of the file.
    """

    path: Path
    tools: int
    edges: int
    bytes: int


@dataclass(frozen=True, slots=True)
class PageTool:
    """A node of the page. None stands for what the graph does not tell."""

    name: ToolName
    label: str
    calls: int | None
    errors: int | None
    description: str
    lessons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PageNotes:
    """What a page shows beside its graph.

    Attributes:
        successes, failures: Runs of known outcome in the whole log, against which the colours are set.
        lessons: Lessons about a tool, the best supported first.
        evidence: Runs and summaries behind the edges that are drawn, in their order.
    """

    successes: int | None = None
    failures: int | None = None
    lessons: Mapping[ToolName, Sequence[str]] = field(default_factory=dict[ToolName, Sequence[str]])
    evidence: Callable[[Sequence[tuple[ToolName, ToolName]]], Sequence[Evidence]] | None = None


NO_NOTES: Final = PageNotes()


@dataclass(frozen=True, slots=True)
class PageEdge:
    """An edge of the page, between indices into the page's tools. None stands for what the graph does not tell.

    Attributes:
        all_summaries: How many there are, of which the page keeps the first few; likewise all_runs.
    """

    source: int
    target: int
    support: int | None
    failures: int | None
    weight: float | None
    failure_share: float | None
    summaries: tuple[str, ...]
    runs: tuple[str, ...]
    all_summaries: int
    all_runs: int


@dataclass(frozen=True, slots=True)
class PageContent:
    """Nodes and edges in the order they are drawn: START, then by calls; edges by source, strongest first.

    Attributes:
        focus: Index of the tool whose neighbourhood this is; None for the whole graph.
        left_out: Tools that were asked for but fell to `max_tools`.
    """

    tools: tuple[PageTool, ...] = ()
    edges: tuple[PageEdge, ...] = ()
    focus: int | None = None
    left_out: int = 0
    notes: PageNotes = NO_NOTES
    tool_count: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tool_count", sum(tool.name != START for tool in self.tools))


def read_content(
    graph: nx.DiGraph[ToolName],
    *,
    focus: ToolName | None = None,
    max_tools: int | None = None,
    notes: PageNotes = NO_NOTES,
) -> PageContent:
    """The part of `graph` that a page shows; the same whatever order nodes and edges were added in.

    Args:
        focus: Keep this tool, the tools before and after it, and the edges among them.
        max_tools: Keep the most called; in a neighbourhood, the tools with the strongest edge to its centre.
    Raises:
        InputError: `focus` is not in the graph, or `max_tools` is below 1.
    """
    if max_tools is not None and max_tools < 1:
        raise InputError(f"max_tools is {max_tools}; a page needs room for at least one tool")
    every = {str(name): _tool(str(name), attributes) for name, attributes in graph.nodes(data=True)}
    links = {(str(a), str(b)): attributes for a, b, attributes in graph.edges(data=True)}
    wanted = set(every) if focus is None else _neighbourhood(focus, every, links)
    strength = dict.fromkeys(wanted, 0.0)
    for (a, b), attributes in links.items():
        for name, other in ((a, b), (b, a)):
            if other == focus and name in strength:
                strength[name] = max(strength[name], _share(attributes.get("weight")) or 0.0)
    ordered = sorted(wanted - {START}, key=lambda n: (n != focus, -strength[n], -(every[n].calls or 0), n))
    kept = ordered[:max_tools]
    names = ([START] if START in wanted and kept else []) + sorted(kept, key=lambda n: (-(every[n].calls or 0), n))
    index = {name: i for i, name in enumerate(names)}
    drawn = [(a, b) for a, b in links if a in index and b in index]
    evidence = [Evidence()] * len(drawn) if notes.evidence is None else notes.evidence(drawn)
    behind = [{"runs": one.runs, "summaries": one.summaries} if notes.evidence else {} for one in evidence]
    edges = (_edge(index[a], index[b], {**links[a, b], **more}) for (a, b), more in zip(drawn, behind, strict=True))
    return PageContent(
        tools=tuple(
            replace(every[name], lessons=tuple(_cut(text) for text in notes.lessons.get(name, ())[:LESSONS]))
            for name in names
        ),
        edges=tuple(sorted(edges, key=lambda e: (e.source, -(e.weight or 0.0), -(e.support or 0), e.target))),
        notes=notes,
        focus=None if focus is None else index.get(focus),
        left_out=len(ordered) - len(kept),
    )


def short_label(name: ToolName) -> str:
    """A name to be written beside a node: one line, no invisible characters, the middle cut where it is long."""
    # Control, format (also those that turn the writing direction), surrogate and private characters have no shape.
    shown = "".join(" " if c.isspace() else c for c in name[:2000] if c.isspace() or unicodedata.category(c)[0] != "C")
    line = " ".join(shown.split()) or "(no visible name)"
    if len(line) <= LABEL_CHARACTERS:
        return line
    head = LABEL_CHARACTERS * 2 // 3
    return line[:head] + "…" + line[-(LABEL_CHARACTERS - head - 1) :]


def _neighbourhood(
    focus: ToolName, every: Mapping[str, PageTool], links: Mapping[tuple[str, str], Mapping[str, Any]]
) -> set[ToolName]:
    if focus not in every:
        raise InputError(f"no tool {short_label(focus)!r} in this graph{_close_matches(focus, every)}")
    return {focus} | {b for a, b in links if a == focus} | {a for a, b in links if b == focus}


def _close_matches(wanted: ToolName, every: Iterable[ToolName]) -> str:
    by_lower: dict[str, str] = {}
    for name in sorted(every):
        by_lower.setdefault(name.lower(), name)
    lower = wanted.lower()
    found = difflib.get_close_matches(lower, by_lower, n=3, cutoff=0.5) or [n for n in by_lower if lower and lower in n]
    if not found:
        return f"; it holds {len(by_lower)} tools, none of a similar name"
    return ". Close to it: " + ", ".join(short_label(by_lower[name]) for name in found[:3])


def _tool(name: ToolName, attributes: Mapping[str, Any]) -> PageTool:
    return PageTool(
        name=name,
        label=START_LABEL if name == START else short_label(name),
        calls=_count(attributes.get("calls")),
        errors=_count(attributes.get("errors")),
        description=_text(attributes.get("description")),
    )


def _edge(source: int, target: int, attributes: Mapping[str, Any]) -> PageEdge:
    support, failures = _count(attributes.get("support")), _count(attributes.get("failures"))
    share = _share(attributes.get("failure_share"))
    if share is None and support is not None and failures is not None and support + failures:
        share = failures / (support + failures)
    summaries, runs = _texts(attributes.get("summaries")), _texts(attributes.get("runs"))
    return PageEdge(
        source=source,
        target=target,
        support=support,
        failures=failures,
        weight=_share(attributes.get("weight")),
        failure_share=share,
        summaries=tuple(_cut(text) for text in summaries[:SUMMARIES]),
        runs=tuple(_cut(run) for run in runs[:RUNS]),
        all_summaries=len(summaries),
        all_runs=len(runs),
    )


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, Real) and math.isfinite(value) else None


def _count(value: object) -> int | None:
    number = _number(value)
    return None if number is None or number < 0 else int(number)


def _share(value: object) -> float | None:
    """A share in [0, 1], rounded so that the last bits of a sum do not change the page."""
    number = _number(value)
    return None if number is None else round(min(1.0, max(0.0, number)), 6)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: object) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        return []
    return [item for item in value if isinstance(item, str)]  # pyright: ignore[reportUnknownVariableType]


def _cut(text: str) -> str:
    return text if len(text) <= SUMMARY_CHARACTERS else text[: SUMMARY_CHARACTERS - 1] + "…"
