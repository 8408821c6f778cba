"""hepm as one of the memories that drive.py drives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sides import Side, rows_of_sqlite

from hepm import Memory
from hepm.ingest.formats.hepm import parse_run


class Hepm(Side):
    """hepm with its lexical vectors, which asks no model."""

    embedder: str | None = None

    def __init__(self, folder: Path, endpoint: str) -> None:
        self._memory = Memory.open(folder, embedder=self.embedder, endpoint=(endpoint, "none"))
        self._folder = folder

    def write(self, run: dict[str, Any]) -> bool:
        return self._memory.ingest(parse_run(run["record"])).stored == 1

    def read(self, request: str) -> int:
        return len(self._memory.suggest(messages=[{"role": "user", "content": request}]))

    def held(self) -> set[str]:
        return {run.id for run in self._memory.runs()}

    def torn(self) -> int:
        return len(self._memory.examine())

    def forget(self, name: str) -> None:
        self._memory.forget(trajectory=name)

    def rows_with(self, text: str) -> dict[str, int]:
        return rows_of_sqlite(self._folder, text)

    def close(self) -> None:
        self._memory.close()


class HepmWithEndpoint(Hepm):
    """hepm with vectors from the same embedder that the peers ask."""

    embedder = "openai/text-embedding-3-small"
