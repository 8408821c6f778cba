"""The graph page: one HTML file that shows which tool worked after which, without a network.

Script, style and data are in the page, and its Content-Security-Policy forbids anything else. Texts of recorded runs
are not trusted: they are embedded as JSON and written as text, never as HTML.
"""

from __future__ import annotations

import difflib
import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import networkx as nx

from hepm.errors import NotFoundError
from hepm.memory import Memory
from hepm.report.forks import Fork
from hepm.text import count_of, cut, on_one_line
from hepm.types import START, Evidence, Object, ToolName
from hepm.web.document import filled
from hepm.web.layout import layout
from hepm.web.transcripts import shortened

_LABEL_CHARACTERS: Final = 36  # of a tool's name in a sentence
_EDGES_PER_TOOL: Final = 15  # the strongest; more would hide one another
# Limits on the texts of one tool or edge, so that a page of 200 tools has a few MB.
_SUMMARIES: Final = 6
_RUNS: Final = 30
_TEXT_CHARACTERS: Final = 600


@dataclass(frozen=True, slots=True)
class PageContent:
    """Nodes and edges as the scripts read them: START, then tools by calls; edges by source, strongest first.

    Attributes:
        focus: Index of the tool whose neighbourhood this is; None for the whole graph.
        outcomes: Successful and failed runs of the whole log; colours are relative to their ratio.
        left_out: Tools beyond `max_tools`.
        edges_left_out: Edges among these tools beyond the strongest.
    """

    tools: list[Object]
    edges: list[Object]
    focus: int | None
    outcomes: tuple[int, int]
    left_out: list[ToolName]
    edges_left_out: int

    @property
    def tool_count(self) -> int:
        """Tools without START."""
        return len(self.tools) - self.begins_with_start

    @property
    def begins_with_start(self) -> bool:
        """Whether the first of the tools is START."""
        return bool(self.tools) and self.tools[0]["name"] == START

    @property
    def counts(self) -> str:
        """What the page shows, in words."""
        successes, runs = self.outcomes[0], sum(self.outcomes)
        counts = f"{count_of(self.tool_count, 'tool')}, {count_of(len(self.edges), 'edge')}"
        if self.focus is not None:
            counts = f"neighbourhood of {_named(self.tools[self.focus]['name'])}: {counts}"
        if runs:
            counts += f"; {successes:,} of {count_of(runs, 'run')} succeeded ({100 * successes / runs:.0f} %)"
        return counts + self.omissions

    @property
    def omissions(self) -> str:
        """What the page leaves out, in words, as " (3 more tools and 1 weaker edge left out)"; "" if nothing."""
        parts: list[str] = []
        if self.left_out:
            parts.append(count_of(len(self.left_out), "more tool"))
        if self.edges_left_out:
            parts.append(count_of(self.edges_left_out, "weaker edge"))
        return f" ({' and '.join(parts)} left out)" if parts else ""

    def data(self, places: Mapping[ToolName, tuple[int, int]] | None = None, forks: Sequence[Fork] = ()) -> Object:
        """What the scripts draw.

        Args:
            places: Known places of all tools, which are then kept.
            forks: Places where runs were lost: the edges of both sides are marked.
        """
        runs = sum(self.outcomes)
        tools: list[Object] = []
        for tool, (x, y, radius) in zip(self.tools, layout(self.tools, self.edges, places), strict=True):
            tools.append({**tool, "x": x, "y": y, "radius": radius})
        return {
            "start": 0 if self.begins_with_start else None,
            "focus": self.focus,
            "base": round(self.outcomes[1] / runs, 6) if runs else None,
            "tools": tools,
            "edges": self.edges,
            "forks": [_fork_data(fork) for fork in forks],
        }


def content_of(
    memory: Memory, namespace: str, *, focus: ToolName | None, max_tools: int, evidence: bool = True
) -> PageContent:
    """What a page shows of a namespace (see `read_content`), with runs and summaries behind edges if `evidence`."""
    totals, mirror = memory.totals(namespace=namespace), memory.mirror(namespace)
    return read_content(
        memory.graph(namespace=namespace),
        evidence=mirror.evidence_of if evidence else None,
        outcomes=(totals.successes, totals.failures),
        focus=focus,
        max_tools=max_tools,
    )


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
        max_tools: Keep the most called, and of each tool's edges to them fifteen, the strongest.
    Raises:
        NotFoundError: `focus` is not in the graph; the message has names like it.
    """
    tools = set(graph)
    if focus is not None:
        if focus not in graph:
            close = difflib.get_close_matches(focus, tools, n=3, cutoff=0.5)
            hint = f". Close to it: {', '.join(map(_named, close))}" if close else ""
            raise NotFoundError(f"no tool {_named(focus)!r} in this graph of {count_of(len(tools), 'tool')}{hint}")
        tools = {focus, *graph.pred[focus], *graph.succ[focus]}
    calls: dict[ToolName, int] = {name: graph.nodes[name]["calls"] for name in tools}
    ordered = sorted(tools - {START}, key=lambda name: (name != focus, -calls[name], name))
    names = sorted(ordered[:max_tools], key=lambda name: (-calls[name], name))
    if START in tools and names:
        # The scripts take the first tool for the start, if it is there at all.
        names.insert(0, START)
    index = {name: number for number, name in enumerate(names)}
    drawn: list[tuple[ToolName, ToolName]] = []
    among = 0
    for source in names:
        after: Mapping[ToolName, Mapping[str, Any]] = graph[source]
        targets = [target for target in after if target in index]
        targets.sort(key=lambda tool: (-after[tool]["weight"], -after[tool]["support"], tool))
        among += len(targets)
        drawn += [(source, target) for target in targets[: max_tools and _EDGES_PER_TOOL]]
    edges: list[Object] = []
    for source, target in drawn:
        edge = graph.edges[source, target]
        # The last bits of a sum must not change the page.
        shares = {name: round(edge[name], 6) for name in ("weight", "failure_share")}
        counts = {"support": edge["support"], "failures": edge["failures"]}
        edges.append({"source": index[source], "target": index[target], **counts, **shares})
    if evidence is not None:
        for edge, behind in zip(edges, evidence(drawn), strict=True):
            edge.update(texts_of(behind))
    return PageContent(
        tools=[_tool_data(name, graph.nodes[name]) for name in names],
        edges=edges,
        focus=None if focus is None else index.get(focus),
        outcomes=outcomes,
        left_out=ordered[max_tools:] if max_tools else [],
        edges_left_out=among - len(drawn),
    )


def _named(tool: ToolName) -> str:
    return on_one_line(cut(tool, _LABEL_CHARACTERS))


def _fork_data(fork: Fork) -> Object:
    ways = [tally.tool for tally in fork.ways]
    return {"after": fork.after, "ways": ways, "mistakes": [one.tool for one in fork.mistakes], "text": fork.sentence}


def _tool_data(name: ToolName, node: Mapping[str, Any]) -> Object:
    """A tool as the scripts read it."""
    known = {key: node[key] for key in ("calls", "errors", "description")}
    return {"name": name, **known, "retired": bool(node.get("retired"))}


def texts_of(behind: Evidence) -> Object:
    """What the page shows of the runs and summaries behind an edge."""
    return {
        "summaries": [shortened(text, _TEXT_CHARACTERS) for text in behind.summaries[:_SUMMARIES]],
        "runs": [shortened(text, _TEXT_CHARACTERS) for text in behind.runs[:_RUNS]],
        "all_summaries": len(behind.summaries),
        "all_runs": len(behind.runs),
    }


def render_page(content: PageContent, *, title: str, forks: Sequence[Fork] = ()) -> str:
    """The page as HTML, the same for the same content."""
    # A lone surrogate, which JSON may contain, has no UTF-8.
    title = title.encode("utf-8", "replace").decode("utf-8")
    heading = html.escape(title)
    values = {"title": f"hepm graph: {heading}", "heading": heading, "counts": html.escape(content.counts)}
    data = {"title": title, **content.data(forks=forks)}
    if not content.tool_count:
        return filled("empty.html", data, values)[0]
    return filled("view.html", data, values, scripts=("main.js",))[0]
