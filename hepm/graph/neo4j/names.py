"""What nodes are found by: hashes, since names may be longer than an index holds."""

from __future__ import annotations

import hashlib
from functools import lru_cache

from hepm.graph.delta import Edge
from hepm.types import ToolName


@lru_cache(maxsize=65_536)
def uid(*parts: str) -> str:
    """A hash of names; no two lists of names give the same text to hash."""
    text = "".join([f"{len(part)}:{part}" for part in parts])
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=12).hexdigest()


def tool_uid(space: str, name: ToolName) -> str:
    """What a tool is found by."""
    return uid(space, "tool", name)


def edge_uid(space: str, edge: Edge) -> str:
    """What passages of an edge are found by."""
    return uid(space, "edge", *edge)


def run_uid(space: str, name: str) -> str:
    """What a run is found by."""
    return uid(space, "run", name)


def lesson_uid(space: str, name: str) -> str:
    """What a lesson is found by."""
    return uid(space, "lesson", name)
