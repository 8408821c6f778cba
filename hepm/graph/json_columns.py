"""What columns and properties that hold JSON may hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

MUST: Final[Mapping[tuple[str, str], str]] = {
    ("tool", "parameters"): "a JSON object",
    ("tool", "former_parameters"): "a JSON object",
    ("tool", "aliases"): "a JSON list of texts",
    ("state", "sources"): "a JSON list of texts",
    ("state", "targets"): "a JSON list of texts",
    ("change", "sources"): "a JSON list of texts, or null",
    ("trajectory", "sequence"): "a JSON list of steps",
    ("answer", "usage"): "a JSON object, or empty",
}
"""By table and column. Neo4j has lists of texts of its own, and JSON in the others."""


def is_json(text: str, must: str) -> bool:
    """Whether a text is the JSON that it must be."""
    if not text:
        return must.endswith("empty")
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if value is None:
        return must.endswith("null")
    if not isinstance(value, list):
        return isinstance(value, dict) and must.startswith("a JSON object")
    parts = cast("list[Any]", value)
    is_part = _is_step if must.endswith("steps") else _is_text
    return must.startswith("a JSON list") and all(map(is_part, parts))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_step(value: Any) -> bool:
    """[targets, flags, facts, key]; without facts before the runs are counted again after an upgrade."""
    if not isinstance(value, list):
        return False
    parts = cast("list[Any]", value)
    if len(parts) == 4 and not _are_facts(parts.pop(2)):
        return False
    return len(parts) == 3 and isinstance(parts[0], list) and {type(parts[1]), type(parts[2])} == {int}


def _are_facts(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    of_sources = cast("dict[str, Any]", value).values()
    return all(isinstance(facts, dict) and all(map(_is_number, cast("Any", facts).values())) for facts in of_sources)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)
