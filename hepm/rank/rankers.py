"""The trained rankers of a memory: one file a namespace, in a folder beside the store."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

from hepm.embed import Embedder
from hepm.errors import HepmError, InputError
from hepm.graph.namespace import NamespaceMirror
from hepm.rank.checkpoint import Checkpoint
from hepm.rank.ranker import Ranker

_log = logging.getLogger("hepm")

_SUFFIX: Final = ".safetensors"


class Trained(NamedTuple):
    """A ranker that fits the memory, and the checkpoint it is from."""

    checkpoint: Checkpoint
    ranker: Ranker


class Rankers:
    """A folder of trained rankers; a file that is written again is read again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._warned = ""
        self._warned = ""
        self._loaded: dict[str, tuple[tuple[int, int], Trained | InputError]] = {}

    def file(self, namespace: str) -> Path:
        """The file of a namespace, existing or not."""
        return self.folder / f"{quote(namespace, safe='')}{_SUFFIX}"

    def save(self, checkpoint: Checkpoint) -> None:
        """Keep a ranker as that of its namespace."""
        self.folder.mkdir(parents=True, exist_ok=True)
        checkpoint.save(self.file(checkpoint.namespace))

    def get(self, mirror: NamespaceMirror, embedder: Embedder) -> Trained:
        """The ranker of a namespace.

        Raises:
            InputError: there is none, or it does not fit the memory.
        """
        file = self.file(mirror.name)
        try:
            stat = file.stat()
        except OSError as error:
            raise InputError(
                f"no ranker was trained for the namespace {mirror.name!r} ({file} is missing): run `hepm rank train`"
            ) from error
        key = stat.st_mtime_ns, stat.st_size
        if mirror.name not in self._loaded or self._loaded[mirror.name][0] != key:
            self._loaded[mirror.name] = key, self._load(file, mirror, embedder)
        found = self._loaded[mirror.name][1]
        if isinstance(found, InputError):
            raise found
        return found

    def _load(self, file: Path, mirror: NamespaceMirror, embedder: Embedder) -> Trained | InputError:
        try:
            checkpoint = Checkpoint.load(file)
            tools = mirror.store.tools(namespace=mirror.name)
            checkpoint.check(mirror.store.header, [tool.name for tool in tools], file)
        except InputError as error:
            return error
        return Trained(checkpoint, checkpoint.ranker({tool.name: tool.description for tool in tools}, embedder))

    def find_voice(self, mirror: NamespaceMirror, embedder: Embedder) -> Ranker | None:
        """The ranker that the hybrid policy listens to; None if there is none, or it did not pass its gate."""
        if not self.file(mirror.name).exists():
            return None
        try:
            found = self.get(mirror, embedder)
        except HepmError as error:
            if self._warned != str(error):
                self._warned = str(error)
                _log.warning("the hybrid policy goes on without its trained ranker: %s", error)
            return None
        return found.ranker if found.checkpoint.used else None
