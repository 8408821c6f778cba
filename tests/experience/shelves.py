"""Libraries with runs in them, in a store of their own."""

from __future__ import annotations

import math
from pathlib import Path

from hepm import Trajectory
from hepm.embed import CachedEmbedder, Embedder, HashingEmbedder
from hepm.experience.lesson_bank import LessonBank
from hepm.graph.mirror.mirror import Mirror
from hepm.graph.rows import Selection
from hepm.graph.sqlite import SQLiteStore
from hepm.graph.store import Store
from tests.runs import Shelf

NS = "team"


def bank_at_rest(store: Store, embedder: Embedder) -> LessonBank:
    """One that follows no other process: else its thread may still be reading when a test closes the store."""
    return LessonBank(store, Mirror(store, poll_s=math.inf), lambda: embedder, lambda: embedder)


def bank_in(store: Store) -> LessonBank:
    embedder = CachedEmbedder(HashingEmbedder())
    store.set_embedder(embedder.name, embedder.dimensions)
    return bank_at_rest(store, embedder)


def open_bank(path: Path) -> LessonBank:
    """The bank in a file, as a program that starts again finds it."""
    embedder = CachedEmbedder(HashingEmbedder())
    store = SQLiteStore(path)
    if not store.header.embedder:
        store.set_embedder(embedder.name, embedder.dimensions)
    return bank_at_rest(store, embedder)


def remember(bank: LessonBank, *runs: Trajectory) -> None:
    """Store runs."""
    shelf = Shelf(*runs)
    stored = shelf.runs()
    bank.store.add(stored, shelf.vectors(stored), namespace=NS, replay=shelf.replay)


def forget(bank: LessonBank, run: str) -> None:
    """Remove a run that counts for no edge of others."""
    bank.store.forget(Selection(trajectory=run), namespace=NS, replay=Shelf().replay)
