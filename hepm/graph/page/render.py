"""Content, layout, library, style and script as one HTML text."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from dataclasses import asdict
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from hepm.atomic_file import atomic_file
from hepm.errors import MissingExtraError
from hepm.graph.page.content import PageContent
from hepm.graph.page.layout import layout
from hepm.text import count_of
from hepm.types import START

# In the order they are loaded.
_SCRIPTS: Final = ("graph.js", "drawing.js", "panel.js", "search.js", "main.js")


def write_page(content: PageContent, path: Path, *, title: str) -> None:
    """Write the page atomically.

    Raises:
        InputError: the path cannot be written.
        MissingExtraError: the graph library is not installed.
    """
    page = render_page(content, title=title).encode("utf-8")
    with atomic_file(path, "the page") as file:
        file.write_bytes(page)


def render_page(content: PageContent, *, title: str) -> str:
    """The page as a text, the same for the same content.

    Raises:
        MissingExtraError: the graph library is not installed.
    """
    # A lone surrogate, which JSON may contain, has no UTF-8.
    title = title.encode("utf-8", "replace").decode("utf-8")
    style = "\n" + _read("page.css")
    library = ["\n" + _vis_network()] if content.tool_count else []
    scripts = ["\n" + _read(name) for name in _SCRIPTS] if content.tool_count else []
    # These very scripts and styles may run, and nothing may be fetched or sent.
    allowed = {"script-src": library + scripts, "style-src": [style]}
    rules = [f"{rule} {' '.join(map(_hash, texts))}" for rule, texts in allowed.items() if texts]
    values = {
        "policy": "; ".join(["default-src 'none'", *rules, "base-uri 'none'", "form-action 'none'"]),
        "title": html.escape(title),
        "counts": html.escape(_counts(content)),
        "style": style,
        "data": _embedded(content, title),
        "library": "".join(f"<script>{script}</script>\n" for script in library),
        "scripts": "".join(f"<script>{script}</script>\n" for script in scripts),
    }
    template = _read("page.html" if content.tool_count else "empty.html")
    # In one pass, so that a title that reads like a placeholder stays a title.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: values[found[1]], template)


def _read(name: str) -> str:
    return resources.files("hepm.graph.page").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _counts(content: PageContent) -> str:
    counts = f"{count_of(content.tool_count, 'tool')}, {count_of(len(content.edges), 'edge')}"
    if content.focus is not None:
        counts = f"neighbourhood of {content.tools[content.focus].label}: {counts}"
    successes, runs = content.outcomes[0], sum(content.outcomes)
    if runs:
        counts += f"; {successes:,} of {count_of(runs, 'run')} succeeded ({100 * successes / runs:.0f} %)"
    return counts + (f" ({count_of(content.left_out, 'more tool')} left out)" if content.left_out else "")


def _embedded(content: PageContent, title: str) -> str:
    """The content as JSON in ASCII that no HTML parser takes for markup."""
    placed = zip(content.tools, layout(content), strict=True)
    runs = sum(content.outcomes)
    data = {
        "title": title,
        "start": 0 if content.tools and content.tools[0].name == START else None,
        "focus": content.focus,
        "base": round(content.outcomes[1] / runs, 6) if runs else None,
        "tools": [{**asdict(tool), "x": x, "y": y, "radius": radius} for tool, (x, y, radius) in placed],
        "edges": [asdict(edge) for edge in content.edges],
    }
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _vis_network() -> str:
    """JavaScript that defines `vis`, its licence first, read from the installed package `gravis`."""
    # Found, not imported: importing gravis 0.1.0 fails with setuptools 82 and later.
    spec = find_spec("gravis")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError(
            "the graph page is drawn by vis-network, which the package gravis contains: pip install 'hepm[view]'"
        )
    package = Path(spec.submodule_search_locations[0])
    folder = package.joinpath("_internal", "plotting", "third_party", "vis-network")
    try:
        script = (folder / "vis-network.min.def.js").read_text(encoding="utf-8")
        license_text = (folder / "ORIGINAL_LICENSE-MIT").read_text(encoding="utf-8")
    except OSError as error:
        raise MissingExtraError(
            f"the graph page is drawn by vis-network, which the package gravis 0.1.0 contains, but {error.filename} "
            "cannot be read: pip install --force-reinstall 'hepm[view]'"
        ) from error
    notice = "/*\nvis-network, used under the MIT license:\n\n" + license_text.replace("*/", "* /").strip() + "\n*/\n"
    # Neither sequence may stand inside a script element; in JavaScript strings the backslash changes nothing.
    whole = notice + _read("vis.js").replace("{{script}}", script)
    return whole.replace("</script", "<\\/script").replace("<!--", "<\\!--")
