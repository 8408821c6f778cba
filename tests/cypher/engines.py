"""Answers of both engines, in a form in which they can be compared."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import neo4j

from hepm.cypher.model import LESSONS, NODES, TABLES, Table
from hepm.types import START


class ExtraLabel(NamedTuple):
    """A label for Browser's styles: in Neo4j, nodes with one of the labels `of` have it if a property has a value."""

    label: str
    of: tuple[str, ...]
    property: str
    value: str | bool


LESSON = "Lesson"
"""A label that every lesson has in Neo4j."""

EXTRA_LABELS = (
    ExtraLabel("Start", ("Tool",), "name", START),
    ExtraLabel("Golden", ("Experience",), "zone", "golden"),
    ExtraLabel("Preference", ("Experience",), "zone", "preference"),
    ExtraLabel("Warning", ("Experience",), "zone", "warning"),
    ExtraLabel("Guiding", ("Principle",), "kind", "guiding"),
    ExtraLabel("Cautionary", ("Principle",), "kind", "cautionary"),
    ExtraLabel("Retired", LESSONS, "live", False),
)


def table(name: str) -> Table:
    """The one table of a name."""
    (found,) = (one for one in TABLES if one.name == name)
    return found


def fresh(name: str) -> str:
    """A namespace that no other test uses: the server is shared."""
    return f"{name}-{uuid.uuid4().hex[:12]}"


def clear_server(driver: neo4j.Driver, database: str, namespaces: Sequence[str]) -> None:
    """Take a test's rows away."""
    for label in NODES:
        _run(driver, database, f"MATCH (n:{label}) WHERE n.namespace IN $rows DETACH DELETE n", list(namespaces))


def _run(driver: neo4j.Driver, database: str, text: str, rows: Sequence[object]) -> list[neo4j.Record]:
    return driver.execute_query(text, rows=rows, database_=database).records  # type: ignore[arg-type]


def as_set(rows: Iterable[Sequence[Any]]) -> list[str]:
    """Rows without their order; floats to ten digits, as engines add them up in different orders."""
    return sorted(repr(tuple(comparable(value) for value in row)) for row in rows)


def comparable(value: Any) -> Any:
    """A value that can be compared over engines, without the numbers that each store gives out by itself."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        return float(f"{value:.10g}")
    if isinstance(value, Mapping):
        told = {key: item for key, item in value.items() if key not in {"states", "summaries", "seq"}}
        return sorted((key, comparable(item)) for key, item in told.items() if key != "id" or isinstance(item, str))
    if isinstance(value, list | tuple):
        return [comparable(item) for item in value]
    return value
