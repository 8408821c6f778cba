"""Progress on stderr, shown to people only."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self


class Bar:
    """A spinner that counts; silent where stderr is no terminal."""

    def __init__(self, what: str) -> None:
        from rich.console import Console

        self._what = what
        self._console = Console(stderr=True)
        self._status = self._console.status(what) if sys.stderr.isatty() else None

    def show(self, done: int, total: int | None = None) -> None:
        """Tell how far it is."""
        if self._status is not None:
            self._status.update(f"{done:,}{f' of {total:,}' if total else ''} {self._what}")

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()
