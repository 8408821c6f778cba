"""The read-only copy of an embedded store for Cypher, in files beside it."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hepm.graph.projection.tables import ModelTables
from hepm.graph.rows import RecordParser
from hepm.graph.store import Store
from hepm.user_cache import user_cache

if TYPE_CHECKING:
    from hepm.cypher.engines import Projection

FOLDER: Final = ".cypher"  # ending of the folder beside a store that holds its copy


def open_copy(store: Store, file: Path, replay: RecordParser) -> Projection:
    """The copy of an embedded store in an embedded Cypher engine, rebuilt where the store in `file` has changed.

    Raises:
        MissingExtraError: the engine is not installed.
    """
    from hepm.cypher.engines import open_projection

    def state() -> str:
        # Differs between two states of a store: by its revision; of a restored file by inode, journal and counts.
        header = store.header
        totals = [(name, store.totals(namespace=name)) for name in store.namespaces()]
        return repr((file.stat().st_ino, header, store.changes_since(header.revision - 1), totals))

    return open_projection(folders_of(file), state, lambda: ModelTables(store, replay).tables())


def folders_of(file: Path) -> tuple[Path, Path]:
    """Where a store's copy may lie: in its folder, or in the user's cache if that cannot be written."""
    place = hashlib.blake2b(os.fsencode(file.resolve()), digest_size=8).hexdigest()
    return file.with_name(file.name + FOLDER), user_cache() / "cypher" / place
