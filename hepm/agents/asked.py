"""What clients ask for, and what is wrong with it."""

from __future__ import annotations

from typing import Final

from pydantic import ValidationError

_SHOWN_ERRORS: Final = 3
_SHOWN_CHARS: Final = 80


def what_is_wrong(error: ValidationError) -> str:
    """The first things that are wrong in the values that a client sent, each with its place."""
    wrong: list[str] = []
    for one in error.errors(include_url=False, include_context=False, include_input=False)[:_SHOWN_ERRORS]:
        where = ".".join(map(str, one["loc"])) or "arguments"
        wrong.append(f"{where[:_SHOWN_CHARS]}: {one['msg'].lower()}")
    return "; ".join(wrong)
