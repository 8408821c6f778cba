"""The graph page: one HTML file that shows which tool worked after which, without a network.

Script, style and data are in the page, and its Content-Security-Policy forbids anything else. Texts of recorded runs
are not trusted: they are embedded as JSON and written as text, never as HTML.
"""

from __future__ import annotations

import difflib
import html
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import networkx as nx

from hepm.errors import NotFoundError
from hepm.memory import Memory
from hepm.report.forks import Fork
from hepm.text import count_of, cut, cut_off, on_one_line, percent
from hepm.types import START, Evidence, Object, Objects, ToolName
from hepm.web.document import filled
from hepm.web.layout import layout

EvidenceOf: TypeAlias = Callable[[Sequence[tuple[ToolName, ToolName]]], Sequence[Evidence]]
"""Runs and summaries behind edges, in their order."""
MOST_TOOLS: Final = 200
"""Tools drawn at once, the most called first."""
_EDGES_PER_TOOL: Final = 15  # the strongest; more would hide one another
# Limits on the texts of one tool or edge, so that a page of 200 tools has a few MB.
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
    evidence: EvidenceOf | None,
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
    tools = set(graph) if focus is None else _around(graph, focus)
    calls: dict[ToolName, int] = {name: graph.nodes[name]["calls"] for name in tools}
    ordered = sorted(tools - {START}, key=lambda name: (name != focus, -calls[name], name))
    names = sorted(ordered[:most], key=lambda name: (-calls[name], name))
    counts = count_of(len(names), "tool")
    if START in tools and names:
        # The scripts take the first tool for the start, if it is there at all.
        names.insert(0, START)
    edges, weaker = _strongest(graph, names, evidence)
    counts += f", {count_of(len(edges), 'edge')}"
    if focus is not None:
        counts = f"neighbourhood of {_named(focus)}: {counts}"
    successes = outcomes[0]
    runs = sum(outcomes)
    if runs:
        counts += f"; {successes:,} of {count_of(runs, 'run')} succeeded ({percent(successes / runs)})"
    missing = {"more tool": len(ordered[most:]), "weaker edge": weaker}
    left_out = " and ".join([count_of(number, what) for what, number in missing.items() if number])
    return {
        "start": 0 if names[:1] == [START] else None,
        "focus": None if focus is None else names.index(focus),
        "base": round(outcomes[1] / runs, 6) if runs else None,
        "tools": _placed(graph, names, edges),
        "edges": edges,
        "forks": list(map(_fork_data, forks)),
        "counts": f"{counts} ({left_out} left out)" if left_out else counts,
        "others": ordered[most:],
    }


def _strongest(
    graph: nx.DiGraph[ToolName], names: Sequence[ToolName], evidence: EvidenceOf | None
) -> tuple[Objects, int]:
    """The strongest edges of each tool to the others, by source, and how many weaker ones there are."""
    index = {name: number for number, name in enumerate(names)}
    ends: list[tuple[ToolName, ToolName]] = []
    edges: Objects = []
    weaker = 0
    for source in names:
        after: Mapping[ToolName, Mapping[str, Any]] = graph[source]
        targets = [target for target in after if target in index]
        targets.sort(key=lambda tool: (-after[tool]["weight"], -after[tool]["support"], tool))
        weaker += len(targets[_EDGES_PER_TOOL:])
        for target in targets[:_EDGES_PER_TOOL]:
            ends.append((source, target))
            edges.append({"source": index[source], "target": index[target]})
            for name in ("support", "failures", "weight", "failure_share"):
                edges[-1][name] = round(after[target][name], 6)  # the last bits of a sum must not change the page
    if evidence is not None:
        for edge, behind in zip(edges, evidence(ends), strict=True):
            edge.update(texts_of(behind))
    return edges, weaker


def _around(graph: nx.DiGraph[ToolName], focus: ToolName) -> set[ToolName]:
    """A tool with those before and after it."""
    if focus not in graph:
        close = difflib.get_close_matches(focus, graph, n=3, cutoff=0.5)
        hint = f". Close to it: {', '.join(map(_named, close))}" if close else ""
        raise NotFoundError(f"no tool {_named(focus)!r} in this graph of {count_of(len(graph), 'tool')}{hint}")
    return {focus, *graph.pred[focus], *graph.succ[focus]}


def _named(tool: ToolName) -> str:
    return on_one_line(cut(tool, 36))  # in a sentence


def _placed(graph: nx.DiGraph[ToolName], names: Sequence[ToolName], edges: Sequence[Object]) -> Objects:
    """Tools with their places."""
    tools: Objects = []
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
        "summaries": [cut_off(text, _TEXT_CHARACTERS) for text in behind.summaries[:6]],
        "runs": [cut_off(text, _TEXT_CHARACTERS) for text in behind.runs[:30]],
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
