"""Hold up what is computed from all runs of a memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from threading import Event

import pytest

from hepm.graph.mirror.namespace_mirror import NamespaceMirror


@contextlib.contextmanager
def refits_held(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Inside it, what is computed from all runs waits; after a while it fails whoever asked for it."""
    go_on = Event()
    update = NamespaceMirror.update

    def held(mirror: NamespaceMirror, *, anew: bool = True, defer: bool = False) -> None:
        assert defer or go_on.wait(10), "this waits for all runs"
        update(mirror, anew=anew, defer=defer)

    monkeypatch.setattr(NamespaceMirror, "update", held)
    try:
        yield
    finally:
        go_on.set()
