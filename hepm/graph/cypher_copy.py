"""Cypher over an embedded store: its read-only copy in an embedded engine, as new as the store."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hepm.graph.model_rows import ModelRows, Read

if TYPE_CHECKING:
    from hepm.cypher.projection import Projection
    from hepm.graph.store import Store

FOLDER: Final = ".cypher"
"""What the folder beside a store is called, behind the store's own name."""


def open_copy(store: Store, file: Path, read: Read) -> Projection:
    """The copy of an embedded store, rebuilt where the store has moved on.

    Args:
        file: The store's own file; the copy lies in a folder beside it, else in the user's cache.
        read: Reads the store's records again.
    Raises:
        MissingExtraError: the engine is not installed.
    """
    from hepm.cypher.projection import open_projection

    return open_projection(folders_of(file), lambda: state_of(store, file), lambda: ModelRows(store, read).tables())


def folders_of(file: Path) -> tuple[Path, Path]:
    """Where a store's copy may lie: beside it, or in the user's cache where that cannot be written."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = hashlib.blake2b(os.fsencode(file.resolve()), digest_size=8).hexdigest()
    return file.with_name(file.name + FOLDER), cache / "hepm" / "cypher" / place


def state_of(store: Store, file: Path) -> str:
    """What tells one state of a store from another: its revision, and what tells a restored file from its sequel."""
    header = store.header
    totals = [(name, store.totals(namespace=name)) for name in store.namespaces()]
    return repr((file.stat().st_ino, header, store.changes_since(header.revision - 1), totals))
