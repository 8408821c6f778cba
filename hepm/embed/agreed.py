"""Which embedder a memory uses: it is opened when a text is embedded, so that counts alone need no numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from hepm.errors import EmbedderMismatchError

if TYPE_CHECKING:
    from hepm.embed.embedder import Embedder
    from hepm.embed.models import EndpointEmbedder


class VectorStore(Protocol):
    """A store as seen here. `header.embedder` is the name of its vectors' embedder, "" while it holds none."""

    @property
    def header(self) -> Any: ...
    def set_embedder(self, name: str, dimensions: int) -> None: ...


class AgreedEmbedder:
    """The embedder of a memory: opened when first needed, since weights alone need no model. Threads may share it.

    It is given by name or itself; None takes the store's own, or `default` if it has none, and follows the store to
    another one. One that is given by name follows it when it reads. EmbedderMismatchError is raised if the store holds
    vectors of another one.
    """

    def __init__(
        self, store: VectorStore, named: str | Embedder | None, *, default: str, endpoint: tuple[str | None, str | None]
    ) -> None:
        self._store = store
        self._endpoint = endpoint
        self._opened: Embedder | None = None
        self._to_close: list[EndpointEmbedder] = []
        self._follows = named is None
        stored = store.header.embedder
        if named is None:
            self._named: str | Embedder = stored or default
            return
        self._named = named
        if stored and self.now.name != stored:
            raise _mismatch(stored, self.now.name)

    @property
    def now(self) -> Embedder:
        """The embedder, agreed on or not."""
        if self._opened is None:
            self._opened = self._open(self._named)
        return self._opened

    def _open(self, named: str | Embedder) -> Embedder:
        from hepm.embed.embedder import CachedEmbedder
        from hepm.embed.models import EndpointEmbedder, open_embedder

        if isinstance(named, str):
            base_url, key = self._endpoint
            named = open_embedder(named, base_url=base_url, api_key=key)
            if isinstance(named, EndpointEmbedder):
                self._to_close.append(named)
        return CachedEmbedder(named)

    def close(self) -> None:
        """Close the connections of embedders that were opened by name; one that was given is its owner's."""
        for embedder in self._to_close:
            embedder.close()

    def following(self, stored: str) -> Embedder:
        """The embedder of vectors with the name `stored`: another process may have embedded them anew."""
        if not stored or stored == self.now.name:
            return self.now
        if not isinstance(self._named, str):
            raise _mismatch(stored, self.now.name)
        opened = self._open(stored)
        # Only now: if it cannot be opened, the former one stays.
        self._named = stored
        self._opened = opened
        return opened

    def agreed(self) -> Embedder:
        """The embedder, if the store holds no vectors of another one; a new store takes its name."""
        stored = self._store.header.embedder
        refused = self.refused(stored)
        if refused is not None:
            raise refused
        if not stored:
            self._store.set_embedder(self.now.name, self.now.dimensions)
        return self.following(stored)

    def refused(self, stored: str) -> EmbedderMismatchError | None:
        """Why a store with vectors of `stored` takes none of this embedder, which was asked for; None if it does."""
        if self._follows or stored in ("", self.now.name):
            return None
        return _mismatch(stored, self.now.name)

    def change(self, named: str | Embedder) -> Embedder:
        """Use another embedder, if it can be opened, and name it in the store, which drops the former's vectors."""
        opened = self._open(named)
        # The store first: if it refuses, this memory goes on with the former one, too.
        self._store.set_embedder(opened.name, opened.dimensions)
        self._named = named
        self._opened = opened
        return opened


def _mismatch(stored: str, required: str) -> EmbedderMismatchError:
    return EmbedderMismatchError(
        f"the store holds vectors of {stored!r}, and {required!r} was asked for: the two cannot be compared. "
        f"Run `hepm reembed --embedder {required}`, or open the store without naming an embedder."
    )
