"""The same rows in both engines, and their answers beside each other."""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import neo4j

from hepm.cypher.model import LESSONS, NODES, PROPERTIES, TABLES, Table
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

Rows = list[tuple[Any, ...]]


def table(name: str) -> Table:
    """The one table of a name."""
    (found,) = (one for one in TABLES if one.name == name)
    return found


def fresh(name: str) -> str:
    """A namespace that no other test uses: the server is shared."""
    return f"{name}-{uuid.uuid4().hex[:12]}"


def node(label: str, number: int, **values: object) -> tuple[Any, ...]:
    """A row of a node; what is not given is nothing of its type."""
    nothing = {"string": "", "integer": 0, "float": 0.0, "boolean": True, "strings": ()}
    return (number, *(values.get(name, nothing[kind]) for name, kind in NODES[label].items()))


def load_server(
    driver: neo4j.Driver, database: str, tables: Iterable[tuple[Table, Iterable[Sequence[object]]]]
) -> None:
    """Write rows of the graph model by plain statements, as hepm's own store does not."""
    found: dict[Table, Rows] = defaultdict(list)
    for one, rows in tables:
        found[one].extend(tuple(row) for row in rows)
    ids: dict[str, dict[int, str]] = {}
    for label in NODES:
        rows = [{"pk": row[0], "p": _properties(label, row[1:])} for row in found[Table(label)]]
        text = f"UNWIND $rows AS row CREATE (n:{label}) SET n = row.p RETURN row.pk AS pk, elementId(n) AS id"
        ids[label] = {r["pk"]: r["id"] for part in _parts(rows) for r in _run(driver, database, text, part)}
        for part in _parts(list(ids[label].values())):
            for change in _labelling(label):
                _run(driver, database, f"MATCH (n:{label}) WHERE elementId(n) IN $rows {change}", part)
    for one in TABLES:
        if one.ends is None:
            continue
        source, target = one.ends
        rows = [
            {"a": ids[source][row[0]], "b": ids[target][row[1]], "p": _properties(one.name, row[2:])}
            for row in found[one]
        ]
        text = (
            "UNWIND $rows AS row MATCH (a) WHERE elementId(a) = row.a MATCH (b) WHERE elementId(b) = row.b "
            f"CREATE (a)-[r:{one.name}]->(b) SET r = row.p"
        )
        for part in _parts(rows):
            _run(driver, database, text, part)


def _labelling(label: str) -> Iterator[str]:
    if label in LESSONS:
        yield f"SET n:{LESSON}"
    for one in EXTRA_LABELS:
        if label in one.of:
            yield f"WITH n WHERE n.{one.property} = {json.dumps(one.value)} SET n:{one.label}"


def clear_server(driver: neo4j.Driver, database: str, namespaces: Sequence[str]) -> None:
    """Take a test's rows away."""
    for label in NODES:
        _run(driver, database, f"MATCH (n:{label}) WHERE n.namespace IN $rows DETACH DELETE n", list(namespaces))


def _run(driver: neo4j.Driver, database: str, text: str, rows: Sequence[object]) -> list[neo4j.Record]:
    return driver.execute_query(text, rows=rows, database_=database).records  # type: ignore[arg-type]


def _parts(rows: Sequence[object]) -> list[Sequence[object]]:
    return [rows[start : start + 5000] for start in range(0, len(rows), 5000)]


def _properties(name: str, values: Sequence[object]) -> dict[str, object]:
    listed = [list(value) if isinstance(value, tuple) else value for value in values]
    return dict(zip(PROPERTIES[name], listed, strict=True))


def as_set(rows: Iterable[Sequence[Any]]) -> list[str]:
    """Rows without their order; floats to ten digits, as engines add them up in different orders."""
    return sorted(repr(tuple(comparable(value) for value in row)) for row in rows)


def comparable(value: Any) -> Any:
    """A value that can be compared over engines."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        return float(f"{value:.10g}")
    if isinstance(value, Mapping):
        return sorted((key, comparable(item)) for key, item in value.items() if key not in {"states", "summaries"})
    if isinstance(value, list | tuple):
        return [comparable(item) for item in value]
    return value
