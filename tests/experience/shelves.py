"""Libraries with runs in them, in a store of their own."""

from __future__ import annotations

import math
from pathlib import Path

from hepm import Trajectory
from hepm.embed import CachedEmbedder, Embedder, HashingEmbedder
from hepm.experience.library import Library
from hepm.graph.mirror.mirror import Mirror
from hepm.graph.rows import Selection
from hepm.graph.sqlite import SQLiteStore
from hepm.graph.store import Store
from tests.runs import Shelf

NS = "team"


def library_at_rest(store: Store, embedder: Embedder) -> Library:
    """One that follows no other process: else its thread may still be reading when a test closes the store."""
    return Library(store, Mirror(store, poll_s=math.inf), lambda: embedder, lambda: embedder)


def library_in(store: Store) -> Library:
    embedder = CachedEmbedder(HashingEmbedder())
    store.set_embedder(embedder.name, embedder.dimensions)
    return library_at_rest(store, embedder)


def open_library(path: Path) -> Library:
    """The library in a file, as a program that starts again finds it."""
    embedder = CachedEmbedder(HashingEmbedder())
    store = SQLiteStore(path)
    if not store.header.embedder:
        store.set_embedder(embedder.name, embedder.dimensions)
    return library_at_rest(store, embedder)


def remember(library: Library, *runs: Trajectory) -> None:
    """Store runs."""
    shelf = Shelf(*runs)
    stored = shelf.runs()
    library.store.add(stored, shelf.vectors(stored), namespace=NS, replay=shelf.replay)


def forget(library: Library, run: str) -> None:
    """Remove a run that counts for no edge of others."""
    library.store.forget(Selection(trajectory=run), namespace=NS, replay=Shelf().replay)
