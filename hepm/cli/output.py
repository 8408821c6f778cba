"""What commands print and write: JSON, lines, tables that are never cut, progress on stderr."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from hepm.errors import InputError, MissingExtraError
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


def print_lines(lines: Iterable[str]) -> None:
    """Print lines to stdout."""
    # JSON is UTF-8 whatever a terminal shows.
    stdout: object = sys.stdout
    if isinstance(stdout, io.TextIOWrapper):
        stdout.reconfigure(encoding="utf-8", newline="\n")
    for line in lines:
        print(raw(line))


def write_lines(lines: Iterable[str], target: Path, what: str) -> int:
    """Write lines to a file atomically, compressed if its name ends in .gz, .xz, .bz2 or .zst; the number of lines.

    Args:
        what: Names the lines in error messages: "the runs".
    Raises:
        InputError: the file cannot be written, or has the name of an archive.
        MissingExtraError: a .zst file without the package that writes it.
    """
    from hepm.atomic_file import atomic_file
    from hepm.ingest.sources import is_archive, uncompressed_name

    name = target.name
    if is_archive(name):
        raise InputError(f"{name} is the name of an archive, and lines are written: call it .jsonl or .jsonl.gz, say.")
    suffix = name.lower()[len(uncompressed_name(name)) :]
    count = 0
    with atomic_file(target, what) as place, place.open("wb") as file, _compressed(file, suffix) as stream:
        for line in lines:
            stream.write(f"{line}\n".encode("utf-8", "backslashreplace"))
            count += 1
    return count


def _compressed(file: IO[bytes], suffix: str) -> AbstractContextManager[Any]:
    import bz2
    import gzip
    import lzma

    if suffix == ".gz":
        return gzip.GzipFile("", "wb", fileobj=file, mtime=0)  # equal bytes give an equal file
    if suffix == ".xz":
        return lzma.LZMAFile(file, "wb")
    if suffix == ".bz2":
        return bz2.BZ2File(file, "wb")
    if suffix == ".zst":
        try:
            import zstandard
        except ImportError:
            raise MissingExtraError("a .zst file is written with Zstandard: pip install 'hepm[zstd]'") from None
        return zstandard.ZstdCompressor().stream_writer(file, closefd=False)
    return nullcontext(file)


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
