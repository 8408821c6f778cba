"""From the name of an embedder to the embedder, and the one that a memory and its store agree on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Protocol

from hepm.embed.embedder import CachedEmbedder, Embedder, HashingEmbedder
from hepm.embed.models import (
    DEFAULT_MODEL,
    ENDPOINT_PREFIX,
    FOLDER_PREFIX,
    HUB_PREFIX,
    EndpointEmbedder,
    SentenceEmbedder,
)
from hepm.errors import EmbedderMismatchError, InputError

MOST_DIMENSIONS: Final = 4096
"""Of hashed words: more separate hardly more of them, and every remembered state takes 4 bytes for each."""

_HASHING = re.compile(r"(?:hepm/)?hash-([1-9]\d*)")
_ON_THE_HUB = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_KNOWN = (
    f"known are: 'hash-512' (1 to {MOST_DIMENSIONS:,} dimensions), 'all-MiniLM-L6-v2', 'sentence-transformers/MODEL', "
    "'OWNER/MODEL' of the Hugging Face hub, "
    "'openai/MODEL', and the path of a folder that holds a sentence-transformers model"
)


def open_embedder(name: str, *, base_url: str | None = None, api_key: str | None = None) -> Embedder:
    """The embedder of that name; loads no model yet.

    Args:
        name: "hash-512", "all-MiniLM-L6-v2", "sentence-transformers/MODEL", "owner/model" of the hub,
            "openai/MODEL", a folder's path, or the `name` of any such embedder.
        base_url: Of an OpenAI-compatible endpoint; OpenAI's own where None.
        api_key: For that endpoint.

    Raises:
        InputError: no embedder has this name; the text lists the known ones.
        MissingExtraError: it needs an extra that is not installed.
    """
    if match := _HASHING.fullmatch(name):
        if len(match[1]) > len(str(MOST_DIMENSIONS)) or int(match[1]) > MOST_DIMENSIONS:
            raise InputError(
                f"{name[:40]!r} has too many dimensions: hashed words take {MOST_DIMENSIONS:,} at most. "
                "A store that was made with more is embedded anew by `hepm reembed --embedder hash-512`."
            )
        return HashingEmbedder(int(match[1]))
    if name.startswith(ENDPOINT_PREFIX) and name != ENDPOINT_PREFIX:
        return EndpointEmbedder(name, base_url=base_url, api_key=api_key)
    if name == DEFAULT_MODEL or (name.startswith(HUB_PREFIX) and name != HUB_PREFIX):
        return SentenceEmbedder(name)
    if name and Path(name).expanduser().is_dir():
        return SentenceEmbedder(Path(name))
    if name.startswith(FOLDER_PREFIX):
        raise InputError(f"the embedder {name!r} was opened from a folder: give the path of that folder instead.")
    if _ON_THE_HUB.fullmatch(name) and not name.startswith((ENDPOINT_PREFIX, "hepm/")):
        return SentenceEmbedder(name)
    raise InputError(f"no embedder is called {name!r}; {_KNOWN}.")


class _Header(Protocol):
    @property
    def embedder(self) -> str: ...


class VectorStore(Protocol):
    """A store as seen here. `header.embedder` is "" while it holds no vectors."""

    @property
    def header(self) -> _Header: ...
    def set_embedder(self, name: str, dimensions: int) -> None: ...


class AgreedEmbedder:
    """The embedder of a memory: opened when first needed, since weights alone need no model. Threads may share it.

    EmbedderMismatchError is raised where the store holds vectors of another one, InputError for an unknown name.

    Args:
        named: Its name, or itself; None takes the store's own, or `default` where it has none. One that is given by
            name follows the store to another one.
        endpoint: Base URL and key, for one that is called "openai/MODEL".
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
        self._to_close: list[EndpointEmbedder] = []
        stored = store.header.embedder
        self._named: str | Embedder = (stored or default) if named is None else named
        if named is not None and stored and self.now.name != stored:
            raise EmbedderMismatchError(_mismatch(stored, self.now.name))

    @property
    def now(self) -> Embedder:
        """The embedder, agreed on or not."""
        if self._opened is None:
            self._opened = self._open(self._named)
        return self._opened

    def _open(self, named: str | Embedder) -> Embedder:
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
        opened = self.now
        if stored and stored != opened.name:
            if not isinstance(self._named, str):
                raise EmbedderMismatchError(_mismatch(stored, opened.name))
            self._named, self._opened = stored, self._open(stored)
            return self._opened
        return opened

    def agreed(self) -> Embedder:
        """The embedder, if the store holds no vectors of another one; a new store takes its name."""
        opened = self.now
        stored = self._store.header.embedder
        if not stored:
            self._store.set_embedder(opened.name, opened.dimensions)
        elif stored != opened.name:
            raise EmbedderMismatchError(_mismatch(stored, opened.name))
        return opened

    def change(self, named: str | Embedder) -> Embedder:
        """Use another embedder, if it can be opened, and name it in the store, which drops the former's vectors."""
        opened = self._open(named)
        self._store.set_embedder(opened.name, opened.dimensions)
        self._named, self._opened = named, opened
        return opened


def _mismatch(stored: str, wanted: str) -> str:
    return (
        f"the store holds vectors of {stored!r}, and {wanted!r} was asked for: the two cannot be compared. "
        f"Run `hepm reembed --embedder {wanted}`, or open the store without naming an embedder."
    )
