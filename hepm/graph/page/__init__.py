"""The graph page: one HTML file that shows which tool worked after which, without a network.

Script, style and data are in the page, and its Content-Security-Policy forbids anything else. Texts of recorded runs
are not trusted: they are embedded as JSON and written as text, never as HTML.
"""

from __future__ import annotations

import base64
import difflib
import hashlib
import html
import json
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import networkx as nx

from hepm.errors import MissingExtraError, NotFoundError
from hepm.graph.mirror.namespace_mirror import NamespaceMirror
from hepm.graph.page.latest import LatestRuns
from hepm.graph.page.layout import layout
from hepm.text import count_of
from hepm.types import START, Evidence, ToolName

_LABEL_CHARACTERS: Final = 36
_EDGES_PER_TOOL: Final = 10  # on average; more would hide one another
# Limits on the texts of one tool or edge, so that a page of 200 tools has a few MB.
_SUMMARIES: Final = 6
_RUNS: Final = 30
_LESSONS: Final = 8
_TEXT_CHARACTERS: Final = 600
# In the order they are loaded.
_SCRIPTS: Final = ("graph.js", "drawing.js", "panel.js", "search.js", "main.js")


@dataclass(frozen=True, slots=True)
class PageContent:
    """Nodes and edges as the scripts read them: START, then tools by calls; edges by source, strongest first.

    Attributes:
        tool_count: Tools without START.
        focus: Index of the tool whose neighbourhood this is; None for the whole graph.
        left_out: Tools beyond `max_tools`.
        outcomes: Successful and failed runs of the whole log; colours are relative to their ratio.
        edges_left_out: Edges among these tools beyond the strongest.
        latest: What the latest runs show; None if they were not read.
    """

    tools: list[dict[str, Any]]
    edges: list[dict[str, Any]]
    tool_count: int
    focus: int | None
    left_out: list[ToolName]
    outcomes: tuple[int, int]
    edges_left_out: int = 0
    latest: LatestRuns | None = None


def part_of(mirror: NamespaceMirror, *, focus: ToolName | None, max_tools: int) -> nx.DiGraph[ToolName]:
    """All tools of a namespace, with those edges alone that `read_content` looks at for the same arguments."""
    tools = {row.name: row.calls for row in mirror.store.tools(namespace=mirror.name) if row.calls}
    if focus is None:
        strength = dict.fromkeys(tools, 0.0)
    else:
        near = mirror.graph(among=(), at=focus)
        strength = _strengths(near, focus) if focus in near else {}
    kept = sorted(strength.keys() - {START}, key=lambda n: (n != focus, -strength[n], -tools.get(n, 0), n))[:max_tools]
    return mirror.graph(among={START, *kept}, at=focus)


def _strengths(graph: nx.DiGraph[ToolName], focus: ToolName) -> dict[ToolName, float]:
    """The weight of the strongest edge between a tool and each of its neighbours; 1 for itself."""
    strength = {focus: 1.0}
    for a, b in [*graph.in_edges(focus), *graph.out_edges(focus)]:
        other = b if a == focus else a
        strength[other] = max(strength.get(other, 0.0), graph.edges[a, b]["weight"])
    return strength


def read_content(
    graph: nx.DiGraph[ToolName],
    *,
    evidence: Callable[[Sequence[tuple[ToolName, ToolName]]], Sequence[Evidence]] | None,
    lessons: Mapping[ToolName, Sequence[str]],
    outcomes: tuple[int, int],
    focus: ToolName | None = None,
    max_tools: int | None = None,
    latest: LatestRuns | None = None,
) -> PageContent:
    """The part of a graph of `Memory.graph` that a page shows, whatever order nodes and edges were added in.

    Args:
        evidence: Returns runs and summaries behind edges, in their order; None leaves them out.
        lessons: Lessons about each tool, the best supported first.
        focus: Keep this tool, the tools before and after it, and the edges among them.
        latest: What the latest runs show, to draw where they end and to filter by kind of request.
        max_tools: Keep the most called; in a neighbourhood, the tools with the strongest edge to its centre. Of the
            edges among them keep ten per tool, the strongest.
    Raises:
        InputError: `focus` is not in the graph.
    """
    calls: dict[ToolName, int] = {name: node["calls"] for name, node in graph.nodes(data=True)}
    strength = dict.fromkeys(calls, 0.0)
    if focus is not None:
        if focus not in calls:
            by_lower = {name.lower(): _short_label(name) for name in sorted(calls)}
            near = [by_lower[one] for one in difflib.get_close_matches(focus.lower(), by_lower, n=3, cutoff=0.5)]
            known = (
                f". Close to it: {', '.join(near)}" if near else f"; it has {len(calls)} tools, none of a similar name"
            )
            raise NotFoundError(f"no tool {_short_label(focus)!r} in this graph{known}")
        strength = _strengths(graph, focus)
    ordered = sorted(strength.keys() - {START}, key=lambda n: (n != focus, -strength[n], -calls[n], n))
    kept = sorted(ordered[:max_tools], key=lambda n: (-calls[n], n))
    names = [START, *kept] if START in strength and kept else kept
    index = {name: number for number, name in enumerate(names)}
    tools = [
        {
            "name": name,
            "label": "start of a run" if name == START else _short_label(name),
            **{key: graph.nodes[name][key] for key in ("calls", "errors", "description")},
            "retired": bool(graph.nodes[name].get("retired")),
            "lessons": _cut(lessons.get(name, ())[:_LESSONS]),
        }
        for name in names
    ]
    among = [edge for edge in graph.edges if index.keys() >= {*edge}]
    drawn = _strongest(graph, among, len(among) if max_tools is None else _EDGES_PER_TOOL * max_tools)
    behind: list[dict[str, Any]] = [{}] * len(drawn) if evidence is None else [*map(texts_of, evidence(drawn))]
    edges: list[dict[str, Any]] = [
        {
            "source": index[a],
            "target": index[b],
            **{key: graph.edges[a, b][key] for key in ("support", "failures")},
            # The last bits of a sum must not change the page.
            **{key: round(graph.edges[a, b][key], 6) for key in ("weight", "failure_share")},
            **texts,
        }
        for (a, b), texts in zip(drawn, behind, strict=True)
    ]
    edges.sort(key=lambda e: (e["source"], -e["weight"], -e["support"], e["target"]))
    centre = None if focus is None else index.get(focus)
    more: dict[str, Any] = {"edges_left_out": len(among) - len(drawn), "latest": latest}
    return PageContent(tools, edges, len(kept), centre, ordered[len(kept) :], outcomes, **more)


def _strongest(
    graph: nx.DiGraph[ToolName], edges: Sequence[tuple[ToolName, ToolName]], most: int
) -> list[tuple[ToolName, ToolName]]:
    """The strongest edge from and to each tool, and of the others those that most runs took, up to `most` in all."""
    if len(edges) <= most:
        return list(edges)
    runs = {edge: graph.edges[edge]["support"] + graph.edges[edge]["failures"] for edge in edges}
    weights = {edge: graph.edges[edge]["weight"] for edge in edges}
    ordered = sorted(edges, key=lambda edge: (-runs[edge], -weights[edge], edge))
    by_weight = sorted(edges, key=lambda edge: (-weights[edge], -runs[edge], edge))
    first = {("from", a): (a, b) for a, b in reversed(by_weight)} | {("to", b): (a, b) for a, b in reversed(by_weight)}
    return list(dict.fromkeys([*first.values(), *ordered]))[:most]


def texts_of(behind: Evidence) -> dict[str, Any]:
    """What the page shows of the runs and summaries behind an edge."""
    return {
        "summaries": _cut(behind.summaries[:_SUMMARIES]),
        "runs": _cut(behind.runs[:_RUNS]),
        "all_summaries": len(behind.summaries),
        "all_runs": len(behind.runs),
    }


def _short_label(name: ToolName) -> str:
    """A name on one line, without invisible characters, its middle cut if it is long."""
    # Control, format (also those that turn the writing direction), surrogate and private characters have no shape.
    shown = "".join(" " if c.isspace() else c for c in name[:2000] if c.isspace() or unicodedata.category(c)[0] != "C")
    line = " ".join(shown.split()) or "(no visible name)"
    head = _LABEL_CHARACTERS * 2 // 3
    return line if len(line) <= _LABEL_CHARACTERS else line[:head] + "…" + line[-(_LABEL_CHARACTERS - head - 1) :]


def _cut(texts: Sequence[str]) -> list[str]:
    return [text if len(text) <= _TEXT_CHARACTERS else text[: _TEXT_CHARACTERS - 1] + "…" for text in texts]


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
    more = {"more tool": len(content.left_out), "weaker edge": content.edges_left_out}
    words = " and ".join(count_of(number, what) for what, number in more.items() if number)
    return f" ({words} left out)" if words else ""


def graph_data(content: PageContent, places: Mapping[ToolName, tuple[int, int]] | None = None) -> dict[str, Any]:
    """What the scripts draw.

    Args:
        places: Known places of all tools, which are then kept.
    """
    runs = sum(content.outcomes)
    placed = zip(content.tools, layout(content.tools, content.edges, places), strict=True)
    return {
        "start": 0 if content.tools and content.tools[0]["name"] == START else None,
        "focus": content.focus,
        "base": round(content.outcomes[1] / runs, 6) if runs else None,
        "tools": [{**tool, "x": x, "y": y, "radius": radius} for tool, (x, y, radius) in placed],
        "edges": content.edges,
        "clusters": clusters_of(content),
        **({} if content.latest is None else _latest_data(content, content.latest)),
    }


def clusters_of(content: PageContent) -> list[int | None]:
    """Of each tool the number of its cluster, the largest first: tools that runs went between more than by chance.

    Greedy modularity (Clauset, Newman and Moore 2004), over the runs that took an edge either way. None for the start
    and for tools alone.
    """
    together: nx.Graph[int] = nx.Graph()
    for edge in content.edges:
        a, b = sorted((edge["source"], edge["target"]))
        runs = (edge["support"] or 0) + (edge["failures"] or 0)
        if a != b and START not in (content.tools[a]["name"], content.tools[b]["name"]) and runs:
            before = together.get_edge_data(a, b, {"weight": 0})["weight"]
            together.add_edge(a, b, weight=before + runs)
    found: list[int | None] = [None] * len(content.tools)
    if not together:
        return found
    groups = [sorted(group) for group in nx.community.greedy_modularity_communities(together, weight="weight")]
    for number, group in enumerate(sorted(groups, key=lambda one: (-len(one), one))):
        for tool in group:
            found[tool] = number
    return found


def _latest_data(content: PageContent, latest: LatestRuns) -> dict[str, Any]:
    """Where the latest runs ended, by tool, and the edges that requests of each kind took, by their numbers."""
    numbers: dict[tuple[ToolName, ToolName], int] = {
        (content.tools[edge["source"]]["name"], content.tools[edge["target"]]["name"]): number
        for number, edge in enumerate(content.edges)
    }
    ends = [latest.ends.get(tool["name"]) for tool in content.tools]
    kinds: list[dict[str, Any]] = []
    for kind in latest.kinds:
        edges = sorted(numbers[edge] for edge in kind.edges if edge in numbers)
        if edges:
            kinds.append({**kind._asdict(), "edges": edges})
    return {
        "latest_runs": latest.runs,
        "ends": [None if one is None else {**one._asdict(), "ended": one.ended} for one in ends],
        "kinds": kinds,
    }


def render_page(content: PageContent, *, title: str) -> str:
    """The page as HTML, the same for the same content.

    Raises:
        MissingExtraError: the graph library is not installed.
    """
    # A lone surrogate, which JSON may contain, has no UTF-8.
    title = title.encode("utf-8", "replace").decode("utf-8")
    values = {"title": html.escape(title), "counts": html.escape(counts_of(content))}
    data = {"title": title, **graph_data(content)}
    if not content.tool_count:
        return fill(_read("empty.html"), [], data, values)[0]
    return fill(_read("page.html"), graph_scripts("hepm[view]"), data, values)[0]


def fill(
    template: str, scripts: Sequence[str], data: Mapping[str, Any], values: Mapping[str, str], style: str = ""
) -> tuple[str, str]:
    """A template with its scripts, style and data inside, and the Content-Security-Policy that allows only these.

    Args:
        values: HTML by placeholder.
        style: Rules after those of the graph page.
    """
    # In ASCII, and nothing that an HTML parser takes for markup.
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    text = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    style = "\n" + _read("page.css") + style
    scripts = ["\n" + script for script in scripts]
    allowed = {"script-src": scripts, "style-src": [style]}
    rules = [f"{rule} {' '.join(map(_hash, texts))}" for rule, texts in allowed.items() if texts]
    policy = "; ".join(["default-src 'none'", *rules, "base-uri 'none'", "form-action 'none'"])
    inside = {
        **values,
        "policy": policy,
        "style": style,
        "data": text,
        "graph": _read("graph.html"),
        "scripts": "".join(f"<script>{script}</script>\n" for script in scripts),
    }
    # In one pass, so that a title that reads like a placeholder stays a title.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: inside[found[1]], template), policy


def graph_scripts(extra: str) -> list[str]:
    """vis-network and the scripts that draw a graph with it.

    Args:
        extra: The extra to name if it is not installed.
    """
    return [_vis_network(extra), *map(_read, _SCRIPTS)]


def _read(name: str) -> str:
    return resources.files("hepm.graph.page").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _vis_network(extra: str) -> str:
    """JavaScript that defines `vis`, its licence first, read from the installed package `gravis`."""
    # Found, not imported: importing gravis 0.1.0 fails with setuptools 82 and later.
    spec = find_spec("gravis")
    needs = f"the graph page is drawn by vis-network, which the package gravis contains: pip install '{extra}'"
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError(needs)
    folder = Path(spec.submodule_search_locations[0], "_internal", "plotting", "third_party", "vis-network")
    try:
        script = (folder / "vis-network.min.def.js").read_text(encoding="utf-8")
        license_text = (folder / "ORIGINAL_LICENSE-MIT").read_text(encoding="utf-8")
    except OSError as error:
        raise MissingExtraError(f"{needs} --force-reinstall (it lacks {error.filename})") from error
    notice = "/*\nvis-network, used under the MIT license:\n\n" + license_text.replace("*/", "* /").strip() + "\n*/\n"
    # Neither sequence may stand inside a script element; in JavaScript strings the backslash changes nothing.
    whole = notice + _read("vis.js").replace("{{script}}", script)
    return whole.replace("</script", "<\\/script").replace("<!--", "<\\!--")
