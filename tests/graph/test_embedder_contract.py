"""No store takes vectors of an embedder that is not its own by the time they are written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hepm.errors import EmbedderMismatchError
from hepm.graph.store import Selection, Store
from tests.runs import Shelf, trajectory

NS = "team"
RUNS = Shelf(*(trajectory(f"r{i}", "look", "buy", goal=goal) for i, goal in enumerate(["shoes", "a lamp", "a lamp"])))

WRITES: dict[str, Callable[[Store, str], object]] = {
    "forget": lambda store, embedder: store.forget(
        Selection(trajectory="r1"), namespace=NS, replay=RUNS.replay, embedder=embedder
    ),
    "rebuild": lambda store, embedder: store.rebuild(namespace=NS, replay=RUNS.replay, embedder=embedder),
}


@pytest.fixture
def filled(store: Store) -> Store:
    runs = RUNS.runs()
    store.add(runs, RUNS.vectors(runs), namespace=NS, replay=RUNS.replay, embedder="hepm/hash-512")
    return store


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_what_would_write_vectors_of_a_former_embedder_is_refused_and_changes_nothing(
    filled: Store, write: Callable[[Store, str], object]
) -> None:
    filled.set_embedder("another", 4)
    before = filled.header, filled.totals(namespace=NS)
    with pytest.raises(EmbedderMismatchError, match="'another' in the meantime"):
        write(filled, "hepm/hash-512")
    assert (filled.header, filled.totals(namespace=NS)) == before
    assert filled.orphans(namespace=NS) == []
