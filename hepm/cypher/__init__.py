"""Every Cypher statement of hepm in a file of its own: the store's, the schema's, and the questions analysts ask."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from itertools import dropwhile
from typing import Final, LiteralString, cast

_MIGRATION: Final = re.compile(r"(\d+)_(\w+)\.cypher")


@cache
def statement(name: str, folder: str = "store") -> LiteralString:
    """The text of `FOLDER/NAME.cypher` without the comments at its head."""
    return _body(resources.files("hepm.cypher").joinpath(folder, f"{name}.cypher").read_text("utf-8"))


@cache
def migrations() -> tuple[tuple[int, str, tuple[LiteralString, ...]], ...]:
    """Version, name and statements of each migration, oldest first."""
    found: list[tuple[int, str, tuple[LiteralString, ...]]] = []
    for entry in resources.files("hepm.cypher").joinpath("schema").iterdir():
        if match := _MIGRATION.fullmatch(entry.name):
            texts = tuple(part.strip().removesuffix(";") for part in _body(entry.read_text("utf-8")).split(";\n"))
            found.append((int(match[1]), str(match[2]).replace("_", " "), tuple(filter(None, texts))))
    return tuple(sorted(found))


def _body(text: str) -> LiteralString:
    lines = dropwhile(lambda line: line.startswith("//"), text.splitlines(keepends=True))
    # From a file of ours, and so as good as written here: the driver's signature takes nothing else.
    return cast("LiteralString", "".join(lines).strip())
