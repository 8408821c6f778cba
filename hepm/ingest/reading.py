"""From what a user names to trajectories: each file is recognised by its content and handed to its reader."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final, Protocol

from hepm.errors import FormatError
from hepm.ingest import agentdojo, atif, bfcl, chat, hepm, tau, tau2, tau2_sft
from hepm.ingest.document import RECORD_LIMIT, Document, UnreadableError
from hepm.ingest.objects import json_of
from hepm.ingest.records import Item, ReadOptions, RecordError, Rejection
from hepm.ingest.sources import Source, open_source


class Reader(Protocol):
    """A module that reads one format."""

    @property
    def NAME(self) -> str:
        """What the format is called."""
        ...

    def recognises(self, document: Document) -> bool:
        """Whether the file is of this format, by its keys and its name."""
        ...

    def read(self, document: Document, options: ReadOptions) -> Iterator[Item]:
        """Its runs, and why others could not be read; raises nothing because of what the file holds."""
        ...


READERS: Final[tuple[Reader, ...]] = (agentdojo, hepm, tau, tau2, tau2_sft, atif, bfcl, chat)
"""In the order in which they are asked: the narrower a format is, the earlier."""

AS_IT_COMES: Final = ReadOptions()

FROM_PROGRAM: Final = "<python>"
"""The source of runs that a program holds."""

UNKNOWN: Final = "unknown"
"""Stands for the format of a file that no reader knows."""


def read_runs(
    sources: Iterable[str | os.PathLike[str]], options: ReadOptions = AS_IT_COMES, *, limit: int = RECORD_LIMIT
) -> Iterator[tuple[str, Item]]:
    """Every run in the sources, in a fixed order, each with the name of its format.

    Args:
        sources: Files, folders, globs, archives, "-" for stdin, "agentpile:..." (see `hepm.ingest.atif`).
        limit: Longest record that is read, in bytes; a longer one is rejected without filling the memory.
    Yields:
        A trajectory, or a Rejection that says which file or record could not be read, and why.
    Raises:
        FormatError: `options.format` is no reader's name.
        MissingExtraError: an "agentpile:..." source without that package.
    """
    readers = _chosen(options.format)
    return _read_all(sources, readers, options, limit)


def read_value(value: object, number: int, options: ReadOptions = AS_IT_COMES) -> Iterator[tuple[str, Item]]:
    """Every run in what a program holds: a record as a file may have it, or all that a file may hold.

    Args:
        value: Dictionaries and lists, or objects that tell what they hold (see `hepm.ingest.objects`).
        number: Its place among the sources, by which a rejection calls it.
    Yields:
        As `read_runs` does.
    Raises:
        FormatError: `options.format` is no reader's name.
    """
    readers = _chosen(options.format)
    try:
        content = json_of(value).encode()
    except RecordError as error:
        yield UNKNOWN, Rejection(FROM_PROGRAM, number, str(error))
        return
    for name, item in _read_one(
        Source(FROM_PROGRAM, "", io.BytesIO(content), lambda _: None), readers, options, RECORD_LIMIT
    ):
        if isinstance(item, Rejection):
            inside = "" if item.record in (None, 1) else f", record {item.record}"
            yield name, replace(item, record=f"{number}{inside}" if inside else number)
        else:
            yield name, item


def _read_all(
    sources: Iterable[str | os.PathLike[str]], readers: tuple[Reader, ...], options: ReadOptions, limit: int
) -> Iterator[tuple[str, Item]]:
    for source in [os.fspath(source) for source in sources]:
        if atif.is_dataset(source):
            for item in atif.read_dataset(source, options):
                yield atif.AGENTPILE, item
            continue
        for opened in open_source(source):
            if isinstance(opened, Rejection):
                yield UNKNOWN, opened
            else:
                yield from _read_one(opened, readers, options, limit)


def _chosen(name: str) -> tuple[Reader, ...]:
    if name == "auto":
        return READERS
    chosen = tuple(reader for reader in READERS if reader.NAME in {name, f"{name}-sft"})
    if not chosen:
        known = ", ".join(sorted(reader.NAME for reader in READERS))
        raise FormatError(f"there is no format called {name!r}; known are auto, {known}")
    return chosen


def _read_one(
    source: Source, readers: tuple[Reader, ...], options: ReadOptions, limit: int
) -> Iterator[tuple[str, Item]]:
    try:
        document = Document(source, limit=limit)
    except UnreadableError as error:
        yield UNKNOWN, Rejection(source.name, None, str(error))
        return
    reader = document.recognised(lambda it: next((reader for reader in readers if reader.recognises(it)), None))
    if reader is not None:
        for item in reader.read(document, options):
            yield reader.NAME, item
    elif options.format == "auto" or document.is_empty:
        yield UNKNOWN, Rejection(source.name, None, _nobody_knows(document))
    else:
        yield from _read_as_named(document, readers[0], options)


def _read_as_named(document: Document, reader: Reader, options: ReadOptions) -> Iterator[tuple[str, Item]]:
    """What a reader makes of a file that does not look like its own: the user named the format."""
    foreign = f"it is not of the format {options.format!r}"
    found = False
    for item in reader.read(document, options):
        found = True
        if isinstance(item, Rejection):
            reason = _looks(document) if item.record is None else item.reason
            yield reader.NAME, replace(item, reason=f"{foreign}: {reason}")
        else:
            yield reader.NAME, item
    if not found:
        yield UNKNOWN, Rejection(document.name, None, f"{foreign}: {_looks(document)}")


def _looks(document: Document) -> str:
    if document.is_empty:
        return f"it is an empty {'list' if document.is_list else 'object'}"
    shape = "a JSON list" if document.is_list else "JSON"
    keys = sorted(map(str, document.keys))
    if not keys:
        return f"it is {shape} without keys to tell it by"
    return f"it is {shape} with the keys {', '.join(keys[:8])}{', …' if len(keys) > 8 else ''}"


def _nobody_knows(document: Document) -> str:
    if document.is_empty:
        return _looks(document)
    return (
        f"no reader knows it: {_looks(document)}. If it holds runs, name their format, "
        'or bring them into OpenAI chat messages: one {"messages": [...]} a line'
    )
