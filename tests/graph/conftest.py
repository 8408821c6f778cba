from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hepm.graph.sqlite import SQLiteStore
from hepm.graph.store import Counting, Store


@pytest.fixture(params=["sqlite"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Store]]:
    """Opens stores of one kind; the same name opens the same store again."""
    opened: list[Store] = []

    def make(name: str = "one", *, counting: Counting | None = None, states_per_move: int = 256) -> Store:
        store = SQLiteStore(tmp_path / f"{name}.hepm", counting=counting, states_per_move=states_per_move)
        store.set_embedder("hepm/hash-512", 512)
        opened.append(store)
        return store

    yield make
    for store in opened:
        store.close()


@pytest.fixture
def store(make_store: Callable[..., Store]) -> Store:
    return make_store()
