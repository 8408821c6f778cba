"""Content, layout, library, style and script put together into one HTML text."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import Final

import networkx as nx

from hepm.atomic_file import atomic_file
from hepm.graph.page.content import NO_NOTES, PageContent, PageNotes, PageReport, read_content
from hepm.graph.page.layout import positions, radii
from hepm.graph.page.vis_network import vis_network_script
from hepm.text import count_of
from hepm.types import START, ToolName

_SCRIPTS: Final = ("graph.js", "drawing.js", "panel.js", "search.js", "main.js")
"""In the order they are loaded; each says in its first line what it holds."""


def write_page(
    graph: nx.DiGraph[ToolName],
    path: str | Path,
    *,
    title: str,
    focus: ToolName | None = None,
    max_tools: int | None = None,
    notes: PageNotes = NO_NOTES,
) -> PageReport:
    """Write the page to `path`, in place of what was there; an error leaves that as it was.

    Raises:
        InputError: unknown `focus` (its text names close ones), `max_tools` below 1, or a path that cannot be written.
        MissingExtraError: the graph library is not installed.
    """
    content = read_content(graph, focus=focus, max_tools=max_tools, notes=notes)
    page = _render(content, title).encode("utf-8")
    with atomic_file(Path(path), "the page") as file:
        file.write_bytes(page)
    return PageReport(path=Path(path), tools=content.tool_count, edges=len(content.edges), bytes=len(page))


def render_page(
    graph: nx.DiGraph[ToolName],
    *,
    title: str,
    focus: ToolName | None = None,
    max_tools: int | None = None,
    notes: PageNotes = NO_NOTES,
) -> str:
    """The page as a text, the same for the same graph whatever order it was built in.

    Nodes may have `calls`, `errors` and `description`; edges `support`, `failures`, `weight`, `failure_share`,
    `summaries` and `runs`. What is absent, or no finite number, is shown as not known.

    Raises:
        InputError: unknown `focus` (its text names close ones), or `max_tools` below 1.
        MissingExtraError: the graph library is not installed.
    """
    return _render(read_content(graph, focus=focus, max_tools=max_tools, notes=notes), title)


def _render(content: PageContent, title: str) -> str:
    # A lone surrogate, which JSON may hold, has no UTF-8.
    title = title.encode("utf-8", "replace").decode("utf-8")
    style = "\n" + _read("page.css")
    scripts = ["\n" + _read(name) for name in _SCRIPTS] if content.tool_count else []
    library = ["\n" + vis_network_script()] if content.tool_count else []
    values = {
        "policy": _policy([style], library + scripts),
        "title": html.escape(title),
        "counts": html.escape(_counts(content)),
        "style": style,
        "data": _embedded(content, title),
        "library": "".join(f"<script>{script}</script>\n" for script in library),
        "scripts": "".join(f"<script>{script}</script>\n" for script in scripts),
    }
    template = _read("page.html" if content.tool_count else "empty.html")
    # One pass, so that a title that reads like a placeholder stays a title.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: values[found[1]], template)


def _read(name: str) -> str:
    return resources.files("hepm.graph.page").joinpath(name).read_text(encoding="utf-8")


def _policy(styles: list[str], scripts: list[str]) -> str:
    """A Content-Security-Policy: these very scripts and styles may run, and nothing may be fetched or sent."""
    allowed = {"script-src": scripts, "style-src": styles}
    rules = [f"{rule} {' '.join(_hash(text) for text in texts)}" for rule, texts in allowed.items() if texts]
    return "; ".join(["default-src 'none'", *rules, "base-uri 'none'", "form-action 'none'"])


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _counts(content: PageContent) -> str:
    counts = f"{count_of(content.tool_count, 'tool')}, {count_of(len(content.edges), 'edge')}"
    if content.focus is not None:
        counts = f"neighbourhood of {content.tools[content.focus].label}: {counts}"
    if (of := _outcomes(content)) is not None:
        counts += f"; {of[0]:,} of {count_of(of[1], 'run')} succeeded ({100 * of[0] / of[1]:.0f} %)"
    return counts + (f" ({count_of(content.left_out, 'more tool')} left out)" if content.left_out else "")


def _outcomes(content: PageContent) -> tuple[int, int] | None:
    """Successful runs of the log and all of known outcome; None where there are none, or it is not told."""
    successes, failures = content.notes.successes, content.notes.failures
    return None if successes is None or not (runs := successes + (failures or 0)) else (successes, runs)


def _embedded(content: PageContent, title: str) -> str:
    """The content as JSON in pure ASCII that no HTML parser can take for markup."""
    placed = zip(content.tools, positions(content), radii(content), strict=True)
    data = {
        "title": title,
        "start": 0 if content.tools and content.tools[0].name == START else None,
        "focus": content.focus,
        "base": None if (of := _outcomes(content)) is None else round(1 - of[0] / of[1], 6),
        "tools": [{**asdict(tool), "x": x, "y": y, "radius": radius} for tool, (x, y), radius in placed],
        "edges": [asdict(edge) for edge in content.edges],
    }
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
