"""No store takes vectors of an embedder that is not its own by the time they are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from hepm.embed import HashingEmbedder
from hepm.errors import EmbedderMismatchError
from hepm.graph.rows import Float32Array, Selection
from hepm.graph.store import Store
from tests.runs import Shelf, trajectory

NS = "team"
VECTOR = HashingEmbedder().embed(["a lamp"])[0]
RUNS = Shelf(*(trajectory(f"r{i}", "look", "buy", goal=goal) for i, goal in enumerate(["shoes", "a lamp", "a lamp"])))

WRITES: dict[str, Callable[[Store, str], object]] = {
    "forget": lambda store, embedder: store.forget(
        Selection(trajectory="r1"), namespace=NS, replay=RUNS.replay, embedder=embedder
    ),
    "put_vectors": lambda store, embedder: store.put_vectors("state", {1: VECTOR}, namespace=NS, embedder=embedder),
    "put_run_vectors": lambda store, embedder: store.put_vectors("run", {1: VECTOR}, namespace=NS, embedder=embedder),
    "lessons.put_vectors": lambda store, embedder: store.put_vectors(
        "lesson", {"e-1": VECTOR}, namespace=NS, embedder=embedder
    ),
    "rebuild": lambda store, embedder: store.rebuild(namespace=NS, replay=RUNS.replay, embedder=HashingEmbedder()),
}


@pytest.fixture
def filled(store: Store) -> Store:
    runs = RUNS.runs()
    store.add(runs, RUNS.vectors(runs), namespace=NS, replay=RUNS.replay, embedder="hepm/hash-512")
    return store


# One store for all writes, and few sizes: with its indexes for another size a server plans all statements anew.


def test_what_would_write_vectors_of_a_former_embedder_is_refused_and_changes_nothing(filled: Store) -> None:
    filled.set_embedder("another", 512)
    before = filled.header, filled.totals(namespace=NS)
    for name, write in WRITES.items():
        with pytest.raises(EmbedderMismatchError, match="'another' in the meantime"):
            write(filled, "hepm/hash-512")
        assert (filled.header, filled.totals(namespace=NS)) == before, name


def test_vectors_of_another_size_under_the_embedders_name_are_refused(filled: Store) -> None:
    filled.set_embedder("hepm/hash-512", 4)
    for name in (name for name in WRITES if "put" in name):
        with pytest.raises(EmbedderMismatchError, match="with 4 numbers, and now 512 came"):
            WRITES[name](filled, "hepm/hash-512")
        assert filled.header.dimensions == 4, name


def test_of_two_reembeddings_that_overlap_the_one_that_named_its_embedder_last_writes_all_vectors(
    filled: Store,
) -> None:
    first, last = HashingEmbedder(128), HashingEmbedder(512)

    class Overtaken:
        """Embeds as the first does, and meanwhile the other one begins."""

        name = first.name

        def embed(self, texts: Sequence[str]) -> Float32Array:
            filled.set_embedder(last.name, last.dimensions)
            return first.embed(texts)

    filled.set_embedder(first.name, first.dimensions)
    with pytest.raises(EmbedderMismatchError, match="in the meantime"):
        filled.reembed(Overtaken())
    assert filled.reembed(last) > 0
    assert filled.reembed(last) == 0
