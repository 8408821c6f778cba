"""The statements that paint a graph for Neo4j Browser."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Final, LiteralString, cast

PAINT: Final = "paint"
CLEAR: Final = "clear_paint"


@cache
def painting(name: str) -> LiteralString:
    """The text of one of them; its comments go along, as a server takes them."""
    text = resources.files("hepm.cypher").joinpath("browser", f"{name}.cypher").read_text("utf-8")
    # From a file of ours, and so as good as written here: the driver's signature takes nothing else.
    return cast("LiteralString", text)
