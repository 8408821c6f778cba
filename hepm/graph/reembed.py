"""Giving stored states their vectors: those that lack one, or all after a change of embedder."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby, islice
from operator import itemgetter

from hepm.graph.store import Store, TextEmbedder

_BATCH = 1000


def reembed(store: Store, embedder: TextEmbedder, *, on_progress: Callable[[int, int], None] | None = None) -> int:
    """Give a vector to every state, run and lesson without one, in all namespaces; how many were written.

    Every batch is a transaction of its own: interrupted, it goes on where it stopped.

    Raises:
        EmbedderMismatchError: another process has named another embedder since; its vectors stay.
    """
    waiting: list[tuple[str, Callable[..., None], int | str, str]] = []
    for name in store.namespaces():
        lessons = store.lessons.list(namespace=name)
        waiting.extend(
            (name, store.lessons.put_vectors, one.row.id, one.row.text) for one in lessons if one.vector is None
        )
        states = store.iter_states(namespace=name, without_vector=True)
        waiting.extend((name, store.put_vectors, row.id, row.summary) for row in states)
        waiting.extend((name, store.put_run_vectors, *run) for run in store.runs_without_vector(namespace=name))
    done = 0
    for (name, put), group in groupby(waiting, key=itemgetter(0, 1)):
        while batch := list(islice(group, _BATCH)):
            vectors = embedder.embed([text for *_, text in batch])
            found = {number: vector for (*_, number, _), vector in zip(batch, vectors, strict=True)}
            put(found, namespace=name, embedder=embedder.name)
            done += len(batch)
            if on_progress is not None:
                on_progress(done, len(waiting))
    return done
