"""The read-only copy of an embedded store for Cypher, in files beside it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from hepm.cypher.model import EDGE_SUMMARIES, PROPERTIES, TABLES, PropertyType, Table
from hepm.graph.open_store import user_cache

if TYPE_CHECKING:
    from hepm.cypher.engines import Projection
    from hepm.graph.sqlite.store import SQLiteStore
    from hepm.graph.store import Store

_HELD: Final = {"string": str, "integer": int, "float": int | float, "boolean": int, "strings": str}
"""What SQLite holds for each type: truth values as numbers, lists as JSON."""

FOLDER: Final = ".cypher"  # ending of the folder beside a store that holds its copy


def open_copy(store: SQLiteStore) -> Projection:
    """The copy of a store in an embedded Cypher engine, rebuilt where the store has changed.

    Raises:
        MissingExtraError: the engine is not installed.
    """
    from hepm.cypher.engines import open_projection

    def state() -> str:
        # Differs between two states of a store: by its revision; of a restored file by inode, journal and counts.
        header = store.header
        totals = [(name, store.totals(namespace=name)) for name in store.namespaces()]
        return repr((store.path.stat().st_ino, header, store.changes_since(header.revision - 1), totals))

    return open_projection(folders_of(store.path), state, lambda: model_tables(store))


def folders_of(file: Path) -> tuple[Path, Path]:
    """Where a store's copy may lie: in its folder, or in the user's cache if that cannot be written."""
    place = hashlib.blake2b(os.fsencode(file.resolve()), digest_size=8).hexdigest()
    return file.with_name(file.name + FOLDER), user_cache() / "cypher" / place


def model_tables(store: Store) -> Iterator[tuple[Table, Iterator[tuple[object, ...]]]]:
    """The tables of the graph model over all namespaces, each with its rows; lazy.

    Rows of nodes begin with a key, rows of relationships with the keys of both ends; the properties follow in the order
    of `hepm.cypher.model`.
    """
    for table in TABLES:
        source, target = table.ends or ("", "")
        rows = store.iterate(
            table.name, namespace="", summaries=EDGE_SUMMARIES, source=source.lower(), target=target.lower()
        )
        yield table, _typed(table, rows)


def _typed(table: Table, rows: Iterator[Sequence[Any]]) -> Iterator[tuple[object, ...]]:
    kinds = tuple(PROPERTIES[table.name].values())
    keys = 1 if table.ends is None else 2
    for row in rows:
        yield (*row[:keys], *map(_value, row[keys:], kinds))


def _value(value: Any, kind: PropertyType) -> object:
    """A value as its column takes it; nothing where it is of another type, as another program may have written it."""
    if kind == "strings" and value is not None:
        read: Any = json.loads(value)
        return tuple(map(str, cast("Sequence[object]", read))) if isinstance(read, list) else ()
    if not isinstance(value, _HELD[kind]):
        return None
    return bool(value) if kind == "boolean" else value
