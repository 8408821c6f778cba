"""The graph page: one HTML file that shows which tool worked after which, without a network.

Script, style and data are in the page, and its Content-Security-Policy forbids anything else. Texts of recorded runs
are not trusted: they are embedded as JSON and written as text, never as HTML.
"""

from __future__ import annotations

import difflib
import html
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

import networkx as nx

from hepm.errors import NotFoundError
from hepm.memory import Memory
from hepm.report.forks import Fork
from hepm.text import count_of
from hepm.types import START, Evidence, Object, ToolName
from hepm.web.document import filled
from hepm.web.layout import layout
from hepm.web.transcripts import shortened

_LABEL_CHARACTERS: Final = 36  # of a tool's name beside its dot
_EDGES_PER_TOOL: Final = 15  # the strongest; more would hide one another
# Limits on the texts of one tool or edge, so that a page of 200 tools has a few MB.
_SUMMARIES: Final = 6
_RUNS: Final = 30
_TEXT_CHARACTERS: Final = 600


@dataclass(frozen=True, slots=True)
class PageContent:
    """Nodes and edges as the scripts read them: START, then tools by calls; edges by source, strongest first.

    Attributes:
        tool_count: Tools without START.
        focus: Index of the tool whose neighbourhood this is; None for the whole graph.
        left_out: Tools beyond `max_tools`.
        outcomes: Successful and failed runs of the whole log; colours are relative to their ratio.
        edges_left_out: Edges among these tools beyond the strongest.
        forks: Places where runs were lost, which are marked.
    """

    tools: list[Object]
    edges: list[Object]
    tool_count: int
    focus: int | None
    left_out: list[ToolName]
    outcomes: tuple[int, int]
    edges_left_out: int = 0
    forks: Sequence[Fork] = ()


def content_of(
    memory: Memory,
    namespace: str,
    *,
    focus: ToolName | None,
    max_tools: int,
    evidence: bool = True,
    forks: Sequence[Fork] = (),
) -> PageContent:
    """What a page shows of a namespace (see `read_content`), with runs and summaries behind edges if `evidence`."""
    totals, mirror = memory.totals(namespace=namespace), memory.mirror(namespace)
    content = read_content(
        memory.graph(namespace=namespace),
        evidence=mirror.evidence_of if evidence else None,
        outcomes=(totals.successes, totals.failures),
        focus=focus,
        max_tools=max_tools,
    )
    return replace(content, forks=forks)


def read_content(
    graph: nx.DiGraph[ToolName],
    *,
    evidence: Callable[[Sequence[tuple[ToolName, ToolName]]], Sequence[Evidence]] | None,
    outcomes: tuple[int, int],
    focus: ToolName | None = None,
    max_tools: int | None = None,
) -> PageContent:
    """The part of a graph of `Memory.graph` that a page shows, whatever order nodes and edges were added in.

    Args:
        evidence: Returns runs and summaries behind edges, in their order; None leaves them out.
        focus: Keep this tool, the tools before and after it, and the edges among them.
        max_tools: Keep the most called; in a neighbourhood, the tools with the strongest edge to its centre. Of each
            tool's edges to them keep fifteen, the strongest.
    Raises:
        InputError: `focus` is not in the graph.
    """
    calls: dict[ToolName, int] = {name: node["calls"] for name, node in graph.nodes(data=True)}
    if focus is None:
        strength = dict.fromkeys(calls, 0.0)
    elif focus in calls:
        strength = {focus: 1.0}
        for other, edge in chain(graph.pred[focus].items(), graph.succ[focus].items()):
            strength[other] = max(strength.get(other, 0.0), edge["weight"])
    else:
        raise _not_in_graph(focus, calls)
    # The focus, then the tools with the strongest edge to it, then the most called.
    ordered = sorted(strength.keys() - {START}, key=lambda name: (name != focus, -strength[name], -calls[name], name))
    kept = sorted(ordered[:max_tools], key=lambda name: (-calls[name], name))
    names = list(kept)
    if START in strength and kept:
        # The scripts take the first tool for the start, if it is there at all.
        names.insert(0, START)
    index = {name: number for number, name in enumerate(names)}
    among = 0
    drawn: list[tuple[ToolName, ToolName]] = []
    for source in names:
        targets = [target for target in _strongest_first(graph[source]) if target in index]
        among += len(targets)
        drawn += [(source, target) for target in targets[: max_tools and _EDGES_PER_TOOL]]
    edges: list[Object] = []
    for source, target in drawn:
        edges.append(_edge_data(index[source], index[target], graph.edges[source, target]))
    if evidence is not None:
        for edge, behind in zip(edges, evidence(drawn), strict=True):
            edge.update(texts_of(behind))
    return PageContent(
        tools=[_tool_data(name, graph.nodes[name]) for name in names],
        edges=edges,
        tool_count=len(kept),
        focus=None if focus is None else index.get(focus),
        left_out=ordered[len(kept) :],
        outcomes=outcomes,
        edges_left_out=among - len(drawn),
    )


def _not_in_graph(focus: ToolName, tools: Collection[ToolName]) -> NotFoundError:
    """The error for a tool that is not in the graph, with the names most like it."""
    by_lower = {name.lower(): _short_label(name) for name in sorted(tools)}
    matches = difflib.get_close_matches(focus.lower(), by_lower, n=3, cutoff=0.5)
    if matches:
        hint = f". Close to it: {', '.join(map(by_lower.__getitem__, matches))}"
    else:
        hint = f"; it has {len(tools)} tools, none of a similar name"
    return NotFoundError(f"no tool {_short_label(focus)!r} in this graph{hint}")


def _tool_data(name: ToolName, node: Mapping[str, Any]) -> Object:
    """A tool as the scripts read it."""
    return {
        "name": name,
        "label": "start of a run" if name == START else _short_label(name),
        "calls": node["calls"],
        "errors": node["errors"],
        "description": node["description"],
        "retired": bool(node.get("retired")),
    }


def _edge_data(source: int, target: int, edge: Mapping[str, Any]) -> Object:
    """An edge as the scripts read it, by the numbers of its tools."""
    return {
        "source": source,
        "target": target,
        "support": edge["support"],
        "failures": edge["failures"],
        # The last bits of a sum must not change the page.
        "weight": round(edge["weight"], 6),
        "failure_share": round(edge["failure_share"], 6),
    }


def _strongest_first(after: Mapping[ToolName, Mapping[str, Any]]) -> list[ToolName]:
    """The tools after one, by their edges; equal edges by name."""
    return sorted(after, key=lambda tool: (-after[tool]["weight"], -after[tool]["support"], tool))


def texts_of(behind: Evidence) -> Object:
    """What the page shows of the runs and summaries behind an edge."""
    return {
        "summaries": [shortened(text, _TEXT_CHARACTERS) for text in behind.summaries[:_SUMMARIES]],
        "runs": [shortened(text, _TEXT_CHARACTERS) for text in behind.runs[:_RUNS]],
        "all_summaries": len(behind.summaries),
        "all_runs": len(behind.runs),
    }


def _short_label(name: ToolName) -> str:
    """A name on one line, without invisible characters, its middle cut if it is long."""
    visible = ""
    for character in name[:2000]:
        # Control, format (also those that turn the writing direction), surrogate and private characters have no shape.
        if character.isspace() or not unicodedata.category(character).startswith("C"):
            visible += character
    line = " ".join(visible.split()) or "(no visible name)"
    if len(line) <= _LABEL_CHARACTERS:
        return line
    head = _LABEL_CHARACTERS * 2 // 3
    tail = _LABEL_CHARACTERS - head - 1
    return line[:head] + "…" + line[-tail:]


def counts_of(content: PageContent) -> str:
    """What a page shows, in words."""
    successes, runs = content.outcomes[0], sum(content.outcomes)
    counts = f"{count_of(content.tool_count, 'tool')}, {count_of(len(content.edges), 'edge')}"
    if content.focus is not None:
        counts = f"neighbourhood of {content.tools[content.focus]['label']}: {counts}"
    if runs:
        counts += f"; {successes:,} of {count_of(runs, 'run')} succeeded ({100 * successes / runs:.0f} %)"
    return counts + left_out_of(content)


def left_out_of(content: PageContent) -> str:
    """What a page leaves out, in words; "" if nothing."""
    parts: list[str] = []
    if content.left_out:
        parts.append(count_of(len(content.left_out), "more tool"))
    if content.edges_left_out:
        parts.append(count_of(content.edges_left_out, "weaker edge"))
    if not parts:
        return ""
    # For example " (3 more tools and 1 weaker edge left out)".
    return f" ({' and '.join(parts)} left out)"


def graph_data(content: PageContent, places: Mapping[ToolName, tuple[int, int]] | None = None) -> Object:
    """What the scripts draw.

    Args:
        places: Known places of all tools, which are then kept.
    """
    runs = sum(content.outcomes)
    begins_with_start = bool(content.tools) and content.tools[0]["name"] == START
    placed = layout(content.tools, content.edges, places)
    tools: list[Object] = []
    for tool, (x, y, radius) in zip(content.tools, placed, strict=True):
        tools.append({**tool, "x": x, "y": y, "radius": radius})
    return {
        "start": 0 if begins_with_start else None,
        "focus": content.focus,
        "base": round(content.outcomes[1] / runs, 6) if runs else None,
        "tools": tools,
        "edges": content.edges,
        "forks": _forks_data(content),
    }


def _forks_data(content: PageContent) -> Object:
    """The edges that are a side of a fork, by their numbers: whether they are the mistake, and the fork in words."""
    sides: dict[tuple[ToolName, ToolName], Object] = {}
    for fork in content.forks:
        ways = [way.tool for way in (fork.instead, *fork.others) if way is not None]
        for tool, mistake in (*((way, False) for way in ways), *((tally.tool, True) for tally in fork.mistakes)):
            sides.setdefault((fork.after, tool), {"mistake": mistake, "text": fork.sentence})
    names = [tool["name"] for tool in content.tools]
    marked: Object = {}
    for number, edge in enumerate(content.edges):
        side = sides.get((names[edge["source"]], names[edge["target"]]))
        if side is not None:
            marked[str(number)] = side
    return marked


def render_page(content: PageContent, *, title: str) -> str:
    """The page as HTML, the same for the same content."""
    # A lone surrogate, which JSON may contain, has no UTF-8.
    title = title.encode("utf-8", "replace").decode("utf-8")
    values = {"title": html.escape(title), "counts": html.escape(counts_of(content))}
    data = {"title": title, **graph_data(content)}
    if not content.tool_count:
        return filled("empty.html", data, values)[0]
    return filled("view.html", data, values, scripts=("main.js",))[0]
