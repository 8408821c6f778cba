"""The read-only copy of an embedded store for Cypher, in files beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from hepm.cypher.model import EDGE_SUMMARIES, PROPERTIES, TABLES, PropertyType, Table

if TYPE_CHECKING:
    from hepm.cypher.engines import Projection
    from hepm.graph.rows import Values
    from hepm.graph.sqlite.store import SQLiteStore

FOLDER: Final = ".cypher"  # ending of the folder beside a store that holds its copy


def open_copy(store: SQLiteStore) -> Projection:
    """The copy of a store in an embedded Cypher engine, rebuilt where the store has changed.

    Raises:
        MissingExtraError: the engine is not installed.
    """
    from hepm.cypher.engines import open_projection

    # A store that was restored or made anew in the same place is another file.
    file = store.path.stat()
    state = repr((file.st_ino, file.st_mtime_ns, store.header))
    folder = store.path.with_name(store.path.name + FOLDER)
    return open_projection(folder, state, lambda: model_tables(store))


def model_tables(store: SQLiteStore) -> Iterator[tuple[Table, Iterator[tuple[object, ...]]]]:
    """The tables of the graph model over all namespaces, each with its rows, all of one state of the store; lazy.

    Rows of nodes begin with a key, rows of relationships with the keys of both ends; the properties follow in the order
    of `hepm.cypher.model`.
    """
    queries: list[tuple[str, Values]] = []
    for table in TABLES:
        source, target = table.ends or ("", "")
        values = {"summaries": EDGE_SUMMARIES, "source": source.lower(), "target": target.lower()}
        queries.append((table.name, values))
    for table, rows in zip(TABLES, store.iterate_at_once(queries), strict=True):
        yield table, _typed(table, rows)


def _typed(table: Table, rows: Iterator[Sequence[Any]]) -> Iterator[tuple[object, ...]]:
    kinds = tuple(PROPERTIES[table.name].values())
    keys = 1 if table.ends is None else 2
    for row in rows:
        yield (*row[:keys], *map(_value, row[keys:], kinds))


def _value(value: Any, kind: PropertyType) -> object:
    """A value as its column takes it: SQLite holds truth values as numbers and lists as JSON."""
    if value is None:
        return None
    if kind == "strings":
        return tuple(json.loads(value))
    if kind == "boolean":
        return bool(value)
    return value
