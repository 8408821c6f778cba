"""The read-only copy of an embedded store for Cypher, in files beside it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hepm.cypher.model import EDGE_SUMMARIES, TABLES, Table
from hepm.errors import StoreError

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
    return open_projection(_folder(store), state, lambda: model_tables(store))


def drop_copy(store: SQLiteStore) -> None:
    """Delete the copy, and one that is being built; the next query builds it anew.

    Raises:
        StoreError: a part of it is still there.
    """
    folder = _folder(store)
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        raise StoreError(f"{folder} may still hold what was forgotten, and cannot be deleted: delete it by hand.")


def _folder(store: SQLiteStore) -> Path:
    return store.path.with_name(store.path.name + FOLDER)


def model_tables(store: SQLiteStore) -> Iterator[tuple[Table, Iterator[Sequence[object]]]]:
    """The tables of the graph model over all namespaces, each with its rows, all of one state of the store; lazy.

    Rows of nodes begin with a key, rows of relationships with the keys of both ends; the properties follow in the order
    of `hepm.cypher.model`.
    """
    queries: list[tuple[str, Values]] = []
    for table in TABLES:
        source, target = table.ends or ("", "")
        queries.append((table.name, {"summaries": EDGE_SUMMARIES, "source": source.lower(), "target": target.lower()}))
    yield from zip(TABLES, store.iterate_at_once(queries), strict=True)
