"""The store's statements by name: `store/NAME.cypher` is what `statement("NAME")` returns."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Final, LiteralString, cast

_MIGRATION: Final = re.compile(r"(\d+)_(\w+)\.cypher")


@cache
def statement(name: str) -> LiteralString:
    """The text of one statement of the store, without the comments at its head."""
    return _body(_read("store", f"{name}.cypher"))


@cache
def schema_statement(name: str) -> LiteralString:
    """The text of one statement on indexes."""
    return _body(_read("schema", f"{name}.cypher"))


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


def _read(folder: str, name: str) -> str:
    return resources.files("hepm.cypher").joinpath(folder, name).read_text("utf-8")


def _body(text: str) -> LiteralString:
    lines = text.splitlines(keepends=True)
    head = 0
    while lines[head].startswith("//"):
        head += 1
    # From a file of ours, and so as good as written here: the driver's signature takes nothing else.
    return cast("LiteralString", "".join(lines[head:]).strip())
