"""What commands print: JSON, tables that are never cut, progress on stderr."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Self

from hepm.text import on_one_line

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


def print_json(value: object) -> None:
    """Print one line of JSON, escaped where the encoding or a terminal needs it."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    text = json.dumps(value, ensure_ascii=not encoding.lower().startswith("utf"))
    if _on_a_terminal() and not text.isprintable():
        text = "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
    print(text)


def _on_a_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()  # pyright: ignore[reportUnnecessaryComparison]  # closed: None


def raw(text: str) -> str:
    """Data for stdout: exact in a pipe or a file; on a terminal with control characters escaped."""
    return "\n".join(map(on_one_line, text.split("\n"))) if _on_a_terminal() else text


def plain(text: str) -> Text:
    """A name for a table, without markup and control characters."""
    from rich.text import Text

    return Text(on_one_line(text))


def print_table(table: Table) -> None:
    """Print a table uncut; if the terminal is too narrow, print its rows as records."""
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table

    console = Console()
    if Measurement.get(console, console.options.update(width=1_000_000), table).maximum <= console.width:
        console.print(table)
        return
    records = Table.grid(padding=(0, 2))
    records.title, records.title_justify = table.title, "left"
    records.add_column(no_wrap=True, style="dim")
    records.add_column(overflow="fold")
    headers = [column.header for column in table.columns]
    for number, row in enumerate(zip(*(column.cells for column in table.columns), strict=True)):
        if number:
            records.add_row()
        for header, value in zip(headers, row, strict=True):
            records.add_row(header, value)
    console.width = max(console.width, 20 + max(len(str(header)) for header in headers))
    console.print(records)


class Bar:
    """A spinner with a count; silent if stderr is not a terminal."""

    def __init__(self, what: str) -> None:
        from rich.console import Console

        self._what = what
        self._status = Console(stderr=True).status(what) if sys.stderr.isatty() else None

    def show(self, done: int, total: int | None = None) -> None:
        """Update the count."""
        if self._status is not None:
            self._status.update(f"{done:,}{f' of {total:,}' if total else ''} {self._what}")

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._status is not None:
            self._status.stop()
