"""What a user pipes into a command."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from hepm.errors import InputError


def check_stdin(hint: str) -> None:
    """Refuse to read a standard input that is closed.

    Args:
        hint: What to call the place of the - on the command line.
    """
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]  # `hepm ... <&-` closes it
        raise typer.BadParameter("standard input is closed: there is nothing to read behind -", param_hint=hint)


def read_stdin(hint: str) -> str:
    """All of standard input, as text."""
    check_stdin(hint)
    return _decoded(sys.stdin.buffer.read(), "standard input")


def read_text(path: Path, hint: str) -> str:
    """The text of a file, or of standard input where that is -."""
    return read_stdin(hint) if str(path) == "-" else _decoded(path.read_bytes(), str(path))


def _decoded(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not UTF-8 ({error.reason} at byte {error.start}): save it as UTF-8.") from error
