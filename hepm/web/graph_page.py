"""The graph page: one HTML file that shows which tool worked after which, without a network.

Script, style and data are in the page, and its Content-Security-Policy forbids anything else. Texts of recorded runs
are not trusted: they are embedded as JSON and written as text, never as HTML.
"""

from __future__ import annotations

import difflib
import html
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import networkx as nx

from hepm.errors import NotFoundError
from hepm.memory import Memory
from hepm.report.forks import Fork
from hepm.text import count_of, cut, on_one_line, percent
from hepm.types import START, Evidence, Object, ToolName
from hepm.web.document import filled
from hepm.web.layout import layout
from hepm.web.transcripts import shortened

MOST_TOOLS: Final = 200
"""Tools drawn at once, the most called first."""
_LABEL_CHARACTERS: Final = 36  # of a tool's name in a sentence
_EDGES_PER_TOOL: Final = 15  # the strongest; more would hide one another
# Limits on the texts of one tool or edge, so that a page of 200 tools has a few MB.
_SUMMARIES: Final = 6
_RUNS: Final = 30
_TEXT_CHARACTERS: Final = 600


def graph_data(
    memory: Memory, namespace: str, *, focus: ToolName | None = None, evidence: bool = True, forks: Sequence[Fork] = ()
) -> Object:
    """What the scripts draw of a namespace (see `read_graph`), with runs and summaries behind edges if `evidence`."""
    totals = memory.totals(namespace=namespace)
    return read_graph(
        memory.graph(namespace=namespace),
        evidence=memory.mirror(namespace).evidence_of if evidence else None,
        outcomes=(totals.successes, totals.failures),
        focus=focus,
        forks=forks,
    )


def read_graph(
    graph: nx.DiGraph[ToolName],
    *,
    evidence: Callable[[Sequence[tuple[ToolName, ToolName]]], Sequence[Evidence]] | None,
    outcomes: tuple[int, int],
    focus: ToolName | None = None,
    most: int = MOST_TOOLS,
    forks: Sequence[Fork] = (),
) -> Object:
    """A graph of `Memory.graph` as the scripts draw it, whatever order nodes and edges were added in.

    The most called tools, START first, and of each tool's edges to these fifteen, the strongest first. `counts` says
    what is drawn and what is left out, `others` are the tools that are left out.

    Args:
        evidence: Returns runs and summaries behind edges, in their order; None leaves them out.
        outcomes: Successful and failed runs of the whole log; colours are relative to their ratio.
        focus: Keep this tool, the tools before and after it, and the edges among them.
        forks: Places where runs were lost: the edges of both sides are marked.
    Raises:
        NotFoundError: `focus` is not in the graph; the message has names like it.
    """
    tools = set(graph)
    if focus is not None:
        tools = _around(graph, focus)
    calls: dict[ToolName, int] = {name: graph.nodes[name]["calls"] for name in tools}
    ordered = sorted(tools - {START}, key=lambda name: (name != focus, -calls[name], name))
    names = sorted(ordered[:most], key=lambda name: (-calls[name], name))
    counts = [count_of(len(names), "tool")]
    if START in tools and names:
        # The scripts take the first tool for the start, if it is there at all.
        names.insert(0, START)
    index = {name: number for number, name in enumerate(names)}
    ends: list[tuple[ToolName, ToolName]] = []
    among = 0
    for source in names:
        after: Mapping[ToolName, Mapping[str, Any]] = graph[source]
        targets = [target for target in after if target in index]
        targets.sort(key=lambda tool: (-after[tool]["weight"], -after[tool]["support"], tool))
        among += len(targets)
        ends += [(source, target) for target in targets[:_EDGES_PER_TOOL]]
    edges: list[Object] = []
    for source, target in ends:
        edge = graph.edges[source, target]
        drawn: Object = {"source": index[source], "target": index[target]}
        for name in ("support", "failures", "weight", "failure_share"):
            drawn[name] = round(edge[name], 6)  # the last bits of a sum must not change the page
        edges.append(drawn)
    if evidence is not None:
        for edge, behind in zip(edges, evidence(ends), strict=True):
            edge.update(texts_of(behind))
    successes, runs = outcomes[0], sum(outcomes)
    counts.append(count_of(len(edges), "edge"))
    sentence = ", ".join(counts)
    if focus is not None:
        sentence = f"neighbourhood of {_named(focus)}: {sentence}"
    if runs:
        sentence += f"; {successes:,} of {count_of(runs, 'run')} succeeded ({percent(successes / runs)})"
    return {
        "start": 0 if START in index else None,
        "focus": None if focus is None else index.get(focus),
        "base": round(outcomes[1] / runs, 6) if runs else None,
        "tools": _placed(graph, names, edges),
        "edges": edges,
        "forks": list(map(_fork_data, forks)),
        "counts": sentence + _left_out(len(ordered[most:]), among - len(edges)),
        "others": ordered[most:],
    }


def _around(graph: nx.DiGraph[ToolName], focus: ToolName) -> set[ToolName]:
    """A tool with those before and after it."""
    if focus not in graph:
        close = difflib.get_close_matches(focus, graph, n=3, cutoff=0.5)
        hint = f". Close to it: {', '.join(map(_named, close))}" if close else ""
        raise NotFoundError(f"no tool {_named(focus)!r} in this graph of {count_of(len(graph), 'tool')}{hint}")
    return {focus, *graph.pred[focus], *graph.succ[focus]}


def _left_out(tools: int, edges: int) -> str:
    """What a page leaves out, in words, as " (3 more tools and 1 weaker edge left out)"; "" if nothing."""
    parts: list[str] = []
    if tools:
        parts.append(count_of(tools, "more tool"))
    if edges:
        parts.append(count_of(edges, "weaker edge"))
    return f" ({' and '.join(parts)} left out)" if parts else ""


def _named(tool: ToolName) -> str:
    return on_one_line(cut(tool, _LABEL_CHARACTERS))


def _placed(graph: nx.DiGraph[ToolName], names: Sequence[ToolName], edges: Sequence[Object]) -> list[Object]:
    """Tools with their places."""
    tools: list[Object] = []
    for name in names:
        node = graph.nodes[name]
        known = {key: node[key] for key in ("calls", "errors", "description")}
        tools.append({"name": name, **known, "retired": bool(node.get("retired"))})
    for tool, (x, y, radius) in zip(tools, layout(tools, edges), strict=True):
        tool.update(x=x, y=y, radius=radius)
    return tools


def _fork_data(fork: Fork) -> Object:
    ways = [tally.tool for tally in fork.ways]
    return {"after": fork.after, "ways": ways, "mistakes": [one.tool for one in fork.mistakes], "text": fork.sentence}


def texts_of(behind: Evidence) -> Object:
    """What the page shows of the runs and summaries behind an edge."""
    return {
        "summaries": [shortened(text, _TEXT_CHARACTERS) for text in behind.summaries[:_SUMMARIES]],
        "runs": [shortened(text, _TEXT_CHARACTERS) for text in behind.runs[:_RUNS]],
        "all_summaries": len(behind.summaries),
        "all_runs": len(behind.runs),
    }


def render_page(content: Object, *, title: str) -> str:
    """The page as HTML, the same for the same content."""
    # A lone surrogate, which JSON may contain, has no UTF-8.
    title = title.encode("utf-8", "replace").decode("utf-8")
    heading = html.escape(title)
    values = {"title": f"hepm graph: {heading}", "heading": heading, "counts": html.escape(content["counts"])}
    data = {**content, "title": title}
    if not content["tools"]:
        return filled("empty.html", data, values)[0]
    return filled("view.html", data, values, scripts=("main.js",))[0]
