"""Statements by name: `statement("NAME")` returns the text of `store/NAME.cypher`."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Final, LiteralString, cast

_MIGRATION: Final = re.compile(r"(\d+)_(\w+)\.cypher")


@cache
def statement(name: str, folder: str = "store") -> LiteralString:
    """The text of one statement, without the comments at its head."""
    return _body(resources.files("hepm.cypher").joinpath(folder, f"{name}.cypher").read_text("utf-8"))


def schema_statement(name: str) -> LiteralString:
    """The text of one statement on indexes."""
    return statement(name, "schema")


@cache
def migrations() -> tuple[tuple[int, str, tuple[LiteralString, ...]], ...]:
    """Version, name and statements of each migration, oldest first."""
    found: list[tuple[int, str, tuple[LiteralString, ...]]] = []
    for entry in resources.files("hepm.cypher").joinpath("schema").iterdir():
        if match := _MIGRATION.fullmatch(entry.name):
            parts: list[LiteralString] = [part.strip() for part in _body(entry.read_text("utf-8")).split(";\n")]
            texts: tuple[LiteralString, ...] = tuple(part.removesuffix(";") for part in parts if part)
            found.append((int(match[1]), str(match[2]).replace("_", " "), texts))
    return tuple(sorted(found))


def _body(text: str) -> LiteralString:
    lines = text.splitlines(keepends=True)
    head = 0
    while lines[head].startswith("//"):
        head += 1
    # From a file of ours, and so as good as written here: the driver's signature takes nothing else.
    return cast("LiteralString", "".join(lines[head:]).strip())
