"""From what a user names to trajectories: each file is recognised by its content and handed to its reader."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Final, TypeVar

from hepm.errors import FormatError
from hepm.ingest import (
    atif,
    benchmark_runs,
    bfcl,
    chat,
    coding_agents,
    exported,
    message_layouts,
    openai_items,
    otlp,
    run_trees,
    state_bench,
)
from hepm.ingest.document import RECORD_LIMIT, Document, Reader, UnreadableError
from hepm.ingest.records import Item, ReadOptions, RecordError, Rejection, json_of
from hepm.ingest.shells import with_command_names
from hepm.ingest.sources import Lines, Source, open_source, printable

T = TypeVar("T")

READERS: Final = (
    benchmark_runs.AGENTDOJO, exported.READER, benchmark_runs.TAU, benchmark_runs.TAU2, benchmark_runs.TAU2_SFT,
    state_bench.READER, atif.READER, bfcl.READER, coding_agents.CODEX_READER, coding_agents.CLAUDE_CODE_READER,
    openai_items.READER, message_layouts.LANGCHAIN, message_layouts.PYDANTIC_AI, otlp.READER, run_trees.LANGFUSE,
    run_trees.LANGSMITH, chat.READER,
)  # fmt: skip
"""The first one that recognises a file reads it: the narrower a format is, the earlier."""

KEYED: Final = frozenset({"chat", "responses", "langchain", "pydantic-ai", "otlp", "langfuse", "langsmith"})
"""Formats whose outcomes are under keys that `ReadOptions` names."""

_PYTHON: Final = "<python>"
_UNKNOWN: Final = "unknown"


def read_runs(
    sources: Iterable[str | os.PathLike[str]], options: ReadOptions | None = None, *, limit: int = RECORD_LIMIT
) -> Iterator[tuple[str, Item]]:
    """Every run in the sources, in a fixed order, each with the name of its format.

    Args:
        sources: Files, folders, globs, archives, "-" for stdin, names of datasets, "agentpile:..." (see
            `hepm.ingest.atif`).
        limit: Longest record that is read, in bytes; a longer one is rejected without filling the memory.
    Raises:
        FormatError: `options.format` is no reader's name.
        MissingExtraError: an "agentpile:..." source without that package.
    """
    options = options or ReadOptions()
    readers = _chosen(options.format)

    def read() -> Iterator[tuple[str, Item]]:
        for source in [os.fspath(source) for source in sources]:
            if source.startswith(f"{atif.AGENTPILE}:") or atif.is_dataset(source):
                for item in atif.read_dataset(source, options):
                    yield atif.AGENTPILE, item
                continue
            for opened in open_source(source):
                if isinstance(opened, Rejection):
                    yield _UNKNOWN, opened
                else:
                    yield from _read_one(opened, readers, options, limit)

    return read()


def read_lines(file: Path, lines: Lines, options: ReadOptions) -> Iterator[tuple[str, Item]]:
    """The runs in some lines of a file that `is_by_line`, with its name of the format."""
    yield from _in_file(file, lines, lambda source: _read_one(source, _chosen(options.format), options, RECORD_LIMIT))


def is_by_line(file: Path, options: ReadOptions) -> bool:
    """Whether `read_lines` of all parts of an uncompressed file gives what `read_runs` of the file gives."""

    def found(source: Source) -> Iterator[bool]:
        with suppress(UnreadableError):
            readers, document = _chosen(options.format), Document(source)
            reader = document.recognised(lambda it: next((reader for reader in readers if reader.recognises(it)), None))
            yield reader is not None and reader.by_line and document.is_lines

    return any(_in_file(file, Lines(0, 0, 1), found))


def _in_file(file: Path, lines: Lines, read: Callable[[Source], Iterator[T]]) -> Iterator[T]:
    with file.open("rb") as stream:
        yield from read(Source(printable(str(file)), PurePosixPath(file.absolute()), stream, lines=lines))


def read_value(value: object, number: int, options: ReadOptions) -> Iterator[tuple[str, Item]]:
    """Every run in what a program holds: a record, or all of a file. Rejections name its `number` among the sources."""
    readers = _chosen(options.format)
    try:
        content = json_of(value).encode()
    except RecordError as error:
        yield _UNKNOWN, Rejection(_PYTHON, number, str(error))
        return
    source = Source(_PYTHON, PurePosixPath(), io.BytesIO(content))
    for name, item in _read_one(source, readers, options, RECORD_LIMIT):
        if isinstance(item, Rejection):
            place = number if item.record in (None, 1) else f"{number}, record {item.record}"
            yield name, replace(item, record=place)
        else:
            yield name, item


def _chosen(name: str) -> Sequence[Reader]:
    chosen = [reader for reader in READERS if name == "auto" or reader.name in (name, f"{name}-sft")]
    if not chosen:
        known = ", ".join(sorted(reader.name for reader in READERS))
        raise FormatError(f"there is no format called {name!r}; known are auto, {known}")
    return chosen


def _read_one(
    source: Source, readers: Sequence[Reader], options: ReadOptions, limit: int
) -> Iterator[tuple[str, Item]]:
    if source.begins_with(openai_items.DATABASE):
        for item in openai_items.read_sessions(source, options):
            yield openai_items.READER.name, _named(item, openai_items.READER, options)
        return
    try:
        document = Document(source, limit=limit)
    except UnreadableError as error:
        yield _UNKNOWN, Rejection(source.name, None, str(error))
        return
    reader = document.recognised(lambda it: next((reader for reader in readers if reader.recognises(it)), None))
    if reader is not None:
        for item in reader.read(document, options):
            yield reader.name, _named(item, reader, options)
    elif document.is_empty:
        yield _UNKNOWN, document.rejected(None, _appearance(document))
    elif options.format == "auto":
        advice = (
            "If it holds runs, name their format, or bring them into OpenAI chat messages: one "
            '{"messages": [...]} a line'
        )
        yield _UNKNOWN, document.rejected(None, f"no reader knows it: {_appearance(document)}. {advice}")
    else:
        foreign = f"it is not of the format {options.format!r}"
        none = True
        for item in readers[0].read(document, options):
            none = False
            if isinstance(item, Rejection):
                reason = _appearance(document) if item.record is None else item.reason
                item = replace(item, reason=f"{foreign}: {reason}")  # noqa: PLW2901
            yield readers[0].name, _named(item, readers[0], options)
        if none:
            yield _UNKNOWN, document.rejected(None, f"{foreign}: {_appearance(document)}")


def _named(item: Item, reader: Reader, options: ReadOptions) -> Item:
    wanted = reader.command_names if options.command_names is None else options.command_names
    return with_command_names(item) if wanted and not isinstance(item, Rejection) else item


def _appearance(document: Document) -> str:
    if document.is_empty:
        return f"it is an empty {'list' if document.is_list else 'object'}"
    shape = "a JSON list" if document.is_list else "JSON"
    keys = sorted(map(str, document.keys))
    if not keys:
        return f"it is {shape} without keys to recognise it by"
    return f"it is {shape} with the keys {', '.join(keys[:8])}{', …' if len(keys) > 8 else ''}"
