"""What a query returned, in the same values whichever engine answered."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeAlias, cast

from hepm.cypher.model import NODES, RELATIONSHIPS, properties_of

Value: TypeAlias = "bool | int | float | str | Sequence[Value] | Mapping[str, Value] | None"
"""A plain value. A node is {"labels", "properties"}, a relationship {"type", "properties"}, a path {"nodes",
"relationships"}; of properties those that docs/graph-model.md names, without the embedding."""

_ENGINE: Final = {"_ID", "_LABEL", "_SRC", "_DST", "pk"}


@dataclass(frozen=True, slots=True)
class Result:
    """A table.

    Attributes:
        truncated: Whether there were more rows than were asked for.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    truncated: bool = False

    def dicts(self) -> list[dict[str, Value]]:
        """Rows by column."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def from_ladybug(value: Any) -> Value:
    """A value of the embedded engine."""
    if isinstance(value, Decimal):  # a sum of integers
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, list):
        return [from_ladybug(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return cast("Value", value)
    table = cast("dict[str, Any]", value)
    if "_NODES" in table:
        nodes, relationships = from_ladybug(table["_NODES"]), from_ladybug(table["_RELS"])
        return {"nodes": nodes, "relationships": relationships}
    if "_LABEL" in table and "_ID" in table:
        return _entity(table["_LABEL"], {key: from_ladybug(v) for key, v in table.items() if key not in _ENGINE})
    return {key: from_ladybug(item) for key, item in table.items()}


def from_neo4j(value: Any) -> Value:
    """A value of Neo4j's driver."""
    from neo4j.graph import Node, Path, Relationship

    if isinstance(value, Node | Relationship):
        return _entity(_names_of(value), _plain(value, from_neo4j))
    if isinstance(value, Path):
        nodes, relationships = from_neo4j(value.nodes), from_neo4j(value.relationships)
        return {"nodes": nodes, "relationships": relationships}
    if isinstance(value, list | tuple):
        return [from_neo4j(item) for item in cast("Sequence[Any]", value)]
    if isinstance(value, Mapping):
        return _plain(cast("Mapping[str, Any]", value), from_neo4j)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)  # dates and points, which hepm itself never stores


def to_json(value: Value) -> Value:
    """The value without the numbers that JSON does not have."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [to_json(item) for item in value]
    return value


def _plain(table: Any, convert: Callable[[Any], Value]) -> dict[str, Value]:
    return {str(key): convert(item) for key, item in table.items()}


def _names_of(entity: Any) -> str | list[str]:
    names = getattr(entity, "labels", None)
    if names is None:
        return str(entity.type)
    return next((name for name in names if name in NODES), sorted(names))


def _entity(name: str | list[str], found: Mapping[str, Value]) -> dict[str, Value]:
    if isinstance(name, list):  # not of the model: shown as it is
        return {"labels": name, "properties": dict(found)}
    known = properties_of(name) or (found if name not in RELATIONSHIPS else {})
    kept = {key: found[key] for key in known if found.get(key) is not None}
    return {"labels": [name], "properties": kept} if name in NODES else {"type": name, "properties": kept}
