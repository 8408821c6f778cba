"""Giving stored states their vectors: those that lack one, or all after a change of embedder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Protocol

from hepm.graph.store import FloatArray, Store

_BATCH = 1000


class TextEmbedder(Protocol):
    """What is needed of an embedder here."""

    def embed(self, texts: Sequence[str], /) -> FloatArray:
        """Vectors of shape (N, dimensions)."""
        ...


def reembed(store: Store, embedder: TextEmbedder, *, on_progress: Callable[[int, int], None] | None = None) -> int:
    """Give a vector to every state without one, in all namespaces; how many were written.

    Every batch is a transaction of its own: interrupted, it goes on where it stopped.
    """
    waiting = {
        namespace: list(store.iter_states(namespace=namespace, without_vector=True)) for namespace in store.namespaces()
    }
    total, done = sum(map(len, waiting.values())), 0
    for namespace, states in waiting.items():
        rows = iter(states)
        while batch := list(islice(rows, _BATCH)):
            vectors = embedder.embed([row.summary for row in batch])
            store.put_vectors({row.id: vector for row, vector in zip(batch, vectors, strict=True)}, namespace=namespace)
            done += len(batch)
            if on_progress is not None:
                on_progress(done, total)
    return done
