"""The embedder that a memory and its store agree on: vectors of two different ones cannot be compared."""

from __future__ import annotations

from typing import Protocol

from hepm.embed.cached import CachedEmbedder
from hepm.embed.named import open_embedder
from hepm.embed.protocol import Embedder
from hepm.errors import EmbedderMismatchError


class NamesEmbedder(Protocol):
    """What is needed of a store's header here."""

    @property
    def embedder(self) -> str:
        """Whose vectors it holds; "" while it holds none."""
        ...


class VectorStore(Protocol):
    """What is needed of a store here."""

    @property
    def header(self) -> NamesEmbedder:
        """Read afresh."""
        ...

    def set_embedder(self, name: str, dimensions: int) -> None:
        """Name the embedder of the vectors to come."""
        ...


class AgreedEmbedder:
    """What a memory embeds by: opened when first needed, since weights alone need no model. Threads may share it.

    Args:
        named: Its name, or itself; None takes the store's own, or `default` where it has none. One that is given by
            name follows the store to another one.
        endpoint: Base URL and key, for one that is called "openai/MODEL".
    Raises:
        EmbedderMismatchError: the store holds another one's vectors.
        InputError: no embedder has this name.
    """

    def __init__(
        self,
        store: VectorStore,
        named: str | Embedder | None,
        *,
        default: str,
        endpoint: tuple[str | None, str | None] = (None, None),
    ) -> None:
        self._store = store
        self._endpoint = endpoint
        self._opened: Embedder | None = None
        stored = store.header.embedder
        self._named: str | Embedder = (stored or default) if named is None else named
        if named is not None and stored and self.now.name != stored:
            raise EmbedderMismatchError(_mismatch(stored, self.now.name))

    @property
    def now(self) -> Embedder:
        """The embedder, agreed on or not."""
        opened = self._opened
        if opened is None:
            opened = self._opened = self._open(self._named)
        return opened

    def _open(self, named: str | Embedder) -> Embedder:
        if isinstance(named, str):
            base_url, key = self._endpoint
            named = open_embedder(named, base_url=base_url, api_key=key)
        return CachedEmbedder(named)

    def following(self, stored: str) -> Embedder:
        """The embedder of vectors that `stored` names: another process may have embedded them anew.

        Raises:
            EmbedderMismatchError: it is another one than the object that was given.
        """
        opened = self.now
        if stored and stored != opened.name:
            if not isinstance(self._named, str):
                raise EmbedderMismatchError(_mismatch(stored, opened.name))
            self._named, self._opened = stored, self._open(stored)
            return self._opened
        return opened

    def agreed(self) -> Embedder:
        """The embedder, once the store holds no other one's vectors; a new store takes its name.

        Raises:
            EmbedderMismatchError: it does.
        """
        opened = self.now
        stored = self._store.header.embedder
        if not stored:
            self._store.set_embedder(opened.name, opened.dimensions)
        elif stored != opened.name:
            raise EmbedderMismatchError(_mismatch(stored, opened.name))
        return opened

    def change(self, named: str | Embedder) -> Embedder:
        """Embed by another one from now on, and name it in the store, which drops the vectors of the former.

        Raises:
            InputError: it cannot be opened; the former one stays.
        """
        opened = self._open(named)
        self._store.set_embedder(opened.name, opened.dimensions)
        self._named, self._opened = named, opened
        return opened


def _mismatch(stored: str, asked: str) -> str:
    return (
        f"the store holds vectors of {stored!r}, and {asked!r} was asked for: the two cannot be compared. "
        f"Run `hepm reembed --embedder {asked}`, or open the store without naming an embedder."
    )
