"""What drive.py asks of a memory, and what two of them share. Standard library only: each one's environment runs it."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from contextlib import closing
from pathlib import Path
from typing import Any


class Side(ABC):
    """A memory in a folder. Making one opens it; its model and embedder answer at an OpenAI-compatible endpoint."""

    @abstractmethod
    def write(self, run: dict[str, Any]) -> bool:
        """Store a run; whether anything of it is kept under its own name."""

    @abstractmethod
    def read(self, request: str) -> int:
        """Ask what is known when a user says this; how many answers came."""

    @abstractmethod
    def held(self) -> set[str]:
        """Ids of the runs of which anything is kept."""

    @abstractmethod
    def torn(self) -> int:
        """Records that lack the other half of what one write stores."""

    @abstractmethod
    def forget(self, name: str) -> None:
        """Forget a run by what the memory offers for that."""

    @abstractmethod
    def rows_with(self, text: str) -> dict[str, int]:
        """Rows that still hold a text, by table; those without any are left out."""

    @abstractmethod
    def close(self) -> None: ...


def rows_of_sqlite(folder: Path, text: str) -> dict[str, int]:
    """Rows of all SQLite files under a folder in which any column holds the text."""
    found: dict[str, int] = {}
    for file in sorted(folder.rglob("*")):
        if not file.is_file() or file.open("rb").read(16) != b"SQLite format 3\0":
            continue
        with closing(sqlite3.connect(file)) as db:
            db.text_factory = bytes
            for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                rows = db.execute(f'SELECT * FROM "{table.decode()}"')
                number = sum(_holds(row, text.encode()) for row in rows)
                if number:
                    found[f"{file.name}:{table.decode()}"] = number
    return found


def _holds(row: tuple[Any, ...], text: bytes) -> bool:
    return any(isinstance(value, bytes) and text in value for value in row)
