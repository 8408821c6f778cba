"""From what a user names to trajectories: each file is recognised by its content and handed to its reader."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final, TypeAlias

from hepm.errors import FormatError, InputError
from hepm.ingest.files import open_source
from hepm.ingest.formats import (
    agentdojo,
    atif,
    bfcl,
    chat,
    claude_code,
    codex,
    exported,
    langfuse,
    langsmith,
    litellm,
    otlp,
    programs,
    state_bench,
    tau,
    tau2,
)
from hepm.ingest.formats.document import Document, Reader, RunOrigin, UnreadableError
from hepm.ingest.formats.parts import counting_unread
from hepm.ingest.records import Item, ReadOptions, RecordError, Rejection, Remark, decoded
from hepm.ingest.shell.command_names import with_command_names
from hepm.types import Trajectory

Found: TypeAlias = Iterator[tuple[str, Item]]
"""What is read, each with the name of its format."""

READERS: Final = (
    agentdojo.READER,
    exported.READER,
    tau.READER,
    tau2.READER,
    tau2.SFT_READER,
    state_bench.READER,
    atif.READER,
    bfcl.READER,
    codex.READER,
    *programs.READERS,
    claude_code.READER,
    chat.RESPONSES,
    chat.LANGCHAIN,
    chat.PYDANTIC_AI,
    otlp.READER,
    langfuse.READER,
    langsmith.READER,
    litellm.READER,
    chat.READER,
)
"""The first one that recognises a file reads it: the narrower a format is, the earlier."""

_PYTHON: Final = "<python>"
_UNKNOWN: Final = "unknown"


def read_runs(
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    options: ReadOptions | None = None,
) -> Found:
    """Every run in the sources, in a fixed order, each with the name of its format.

    Args:
        sources: Files, folders, globs, tar archives, "-" for stdin; or a single one.
    Raises:
        FormatError: `options.format` is no reader's name.
    """
    options = options or ReadOptions()
    readers = _chosen(options.format)
    if isinstance(sources, str | os.PathLike):
        sources = [sources]
    # All names at once: a wrong type is an error before anything is read.
    names = [os.fspath(source) for source in sources]
    return chain.from_iterable(_read_source(name, readers, options) for name in names)


def _read_source(name: str, readers: Sequence[Reader], options: ReadOptions) -> Found:
    for opened in open_source(name):
        if isinstance(opened, Rejection):
            yield _UNKNOWN, opened
            continue
        try:
            document = Document(opened.name, options, source=opened)
        except UnreadableError as error:
            yield _UNKNOWN, Rejection(opened.name, None, str(error))
        else:
            yield from _read_document(document, readers)


def read_value(value: object, number: int, options: ReadOptions) -> Found:
    """Every run in what a program holds: a record, or all of a file. Rejections name its `number` among the sources."""
    readers = _chosen(options.format)
    try:
        document = Document(_PYTHON, options, value=decoded(value))
    except RecordError as error:
        yield _UNKNOWN, Rejection(_PYTHON, number, str(error))
        return
    for format_name, item in _read_document(document, readers):
        if isinstance(item, Rejection):
            record = number if item.record in (None, 1) else f"{number}, record {item.record}"
            item = replace(item, record=record)  # noqa: PLW2901
        yield format_name, item


def from_messages(
    messages: Sequence[object],
    *,
    id: str = "",
    task: str = "",
    success: bool | str | None = None,
    reward: float | None = None,
    environment: str = "",
    user: str = "",
    model: str = "",
) -> Trajectory:
    """One run from OpenAI chat messages, as dictionaries or the SDK's objects.

    Args:
        id: "" takes a hash of the content.
        success: Words such as "no" work too. Without an outcome, the run is not counted until it comes again with one.
        reward: Decides where `success` is missing (see `Memory.open`).
    Raises:
        InputError: the messages make no run.
    """
    record = {
        "messages": messages,
        "success": success,
        "reward": reward,
        "id": id,
        "task": task,
        "environment": environment,
        "user": user,
        "model": model,
    }
    origin = RunOrigin(_PYTHON)
    run = origin.built(1, record, lambda given: chat.read_record(decoded(given), origin))
    if isinstance(run, Rejection):
        raise InputError(f"these messages make no run: {run.reason}")
    return run


def _chosen(format_name: str) -> Sequence[Reader]:
    chosen = [reader for reader in READERS if format_name in ("auto", reader.name)]
    if not chosen:
        names = ", ".join(sorted([reader.name for reader in READERS]))
        raise FormatError(f"there is no format called {format_name!r}; known are auto, {names}")
    return chosen


def _read_document(document: Document, readers: Sequence[Reader]) -> Found:
    reader = document.reader_among(readers)
    if reader is None and document.options.format == "auto":
        advice = (
            "If it holds runs, name their format, or bring them into OpenAI chat messages: one "
            '{"messages": [...]} a line'
        )
        yield _UNKNOWN, document.rejected(None, f"no reader knows it: {_appearance(document)}. {advice}")
        return
    # A format that was named is tried on whatever it may be.
    chosen = reader or readers[0]
    by_program = document.options.command_names
    if by_program is None:
        by_program = chosen.command_names
    is_empty = True
    with counting_unread() as unread:
        for item in chosen.read(document):
            is_empty = False
            record = item.record if isinstance(item, Rejection) else item.id
            if by_program and isinstance(item, Trajectory):
                item = with_command_names(item)  # noqa: PLW2901
            yield chosen.name, item
            if unread:
                kinds = {kind[:40]: count for kind, count in unread.items()}
                reason = "parts of messages are of types that hepm does not know, and left out"
                yield chosen.name, Remark(document.name, record, reason, kinds)
                unread.clear()
    if is_empty and reader is None:
        reason = f"it is not of the format {document.options.format!r}: {_appearance(document)}"
        yield _UNKNOWN, document.rejected(None, reason)


def _appearance(document: Document) -> str:
    """What people may recognise a file by, without anything that its records hold."""
    shape = "it is a JSON list" if document.is_list else "it is JSON"
    keys = sorted(map(str, document.keys))
    if not keys:
        return f"{shape} that is empty, or without keys to recognise it by"
    shown = [*keys[:8], "…"] if len(keys) > 8 else keys
    return f"{shape} with the keys {', '.join(shown)}"
