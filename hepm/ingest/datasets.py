"""Other formats and public datasets, through agentpile: it brings them into ATIF, and our ATIF reader reads that.

A source is spelled ``agentpile:NAME`` for one of its datasets ("agentpile:tau_bench"), ``agentpile:PATH`` for a file or
folder in a format that it recognises (Claude Code sessions, OTLP traces, ...), or ``agentpile:READER:PATH`` to name the
format as well ("agentpile:claude-code-jsonl:sessions").
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from hepm.errors import MissingExtraError
from hepm.ingest.atif import AtifReader
from hepm.ingest.document import built
from hepm.ingest.records import Item, ReadOptions
from hepm.ingest.rejection import Rejection
from hepm.ingest.sources import files_below

NAME: Final = "agentpile"
PREFIX: Final = "agentpile:"


def is_dataset(source: str) -> bool:
    """Whether a source is spelled as one that agentpile reads."""
    return source.startswith(PREFIX)


def read_dataset(source: str, options: ReadOptions) -> Iterator[Item]:
    """The runs behind an ``agentpile:...`` source.

    Raises:
        MissingExtraError: agentpile is not installed, or lacks what downloads a dataset.
    """
    agentpile = _agentpile()
    reader, name = _split(source.removeprefix(PREFIX), agentpile)
    for place in _places(name):
        yield from _read(agentpile, place, reader, options)


def _agentpile() -> Any:
    try:
        return import_module("agentpile")
    except ImportError:
        raise MissingExtraError(
            "other formats and datasets are read by agentpile: pip install 'hepm[datasets]'"
        ) from None


def _split(name: str, agentpile: Any) -> tuple[str | None, str]:
    reader, colon, rest = name.partition(":")
    return (reader, rest) if colon and reader in agentpile.readers.names() else (None, name)


def _places(name: str) -> Iterator[str]:
    if os.path.isdir(name):
        yield from map(str, files_below(Path(name)))
    else:
        yield name


def _read(agentpile: Any, place: str, reader: str | None, options: ReadOptions) -> Iterator[Item]:
    source = PREFIX + place
    converter = AtifReader(source, {}, options)
    number = 0
    try:
        for number, run in enumerate(agentpile.load(place, reader=reader), 1):
            if run.kind == "trajectory":
                yield built(source, number, run.record, converter.trajectory)
            else:
                yield Rejection(source, number, "it describes tools and holds no run")
    except ImportError as error:
        raise MissingExtraError(f"agentpile cannot read {place!r}: {error}") from error
    except Exception as error:  # whatever goes wrong in there, other sources are still to be read
        yield Rejection(
            source, number + 1 if number else None, f"agentpile cannot read it: {error or type(error).__name__}"
        )
