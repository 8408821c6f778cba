"""Both pages' foundation: a template filled with style, scripts and data, and the policy that allows only these."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, Final

_DRAWING: Final = ("elements.js", "graph.js", "drawing.js", "panel.js", "search.js")
"""The scripts that draw a graph with vis-network, in the order they are loaded."""


def filled(
    body: str,
    data: Mapping[str, Any],
    values: Mapping[str, str],
    *,
    scripts: Sequence[str] = (),
    styles: Sequence[str] = (),
    rules: Sequence[str] = (),
    drawing: bool = True,
) -> tuple[str, str]:
    """A page with everything inside, and its Content-Security-Policy.

    Args:
        body: Name of the template that the page's body is made of.
        values: HTML by placeholder.
        scripts: Names of the scripts after those that draw the graph, if it draws one.
        styles: Names of the styles after the one of all pages.
        rules: Further rules of the policy.
        drawing: Whether it draws a graph, if it has scripts.
    """
    # In ASCII, and nothing that an HTML parser takes for markup.
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    text = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    style = "\n" + "".join(map(_asset, ("page.css", *styles)))
    loaded: list[str] = []
    allowed = ["default-src 'none'"]
    if scripts:
        texts = list(map(_asset, scripts))
        if drawing:
            texts = [_vis_network(), *map(_asset, _DRAWING), *texts]
        loaded = [f"\n{text}" for text in texts]
        allowed.append(f"script-src {' '.join(map(_hash, loaded))}")
    allowed += [f"style-src {_hash(style)}", "base-uri 'none'", "form-action 'none'", *rules]
    policy = "; ".join(allowed)
    inside = {**values, "policy": policy, "style": style, "data": text}
    inside["scripts"] = "".join(f"<script>{script}</script>\n" for script in loaded)
    template = _template("page.html").replace("{{body}}", _template(body))
    # In one pass, so that a title that reads like a placeholder stays a title.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: inside[found[1]], template), policy


def _template(name: str) -> str:
    """A template with those that it names inside."""
    return re.sub(r"\{\{(\w+\.html)\}\}", lambda found: _template(found[1]), _asset(name))


def _asset(name: str) -> str:
    return resources.files("hepm.web").joinpath("assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _vis_network() -> str:
    """JavaScript that defines `vis`, its licence first."""
    notice = f"/*\nvis-network, used under the MIT license:\n\n{_asset('vis-network.LICENSE').strip()}\n*/\n"
    script = notice + _asset("vis-network.min.js")
    # Neither sequence may stand inside a script element; in JavaScript strings the backslash changes nothing.
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")
