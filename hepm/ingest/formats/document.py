"""One open file as its reader sees it: a few facts to recognise it by, then its records one at a time.

JSON lines are read line by line; a document that is one JSON value, or several one after another, as a whole.
"""

from __future__ import annotations

import codecs
import io
import itertools
import json
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import IO, Any, Final, TypeAlias, TypeVar

from hepm.ingest.fields import as_object, is_list, is_object, kind_of, value_at
from hepm.ingest.files import STREAM_ERRORS, SourceFile, read_some
from hepm.ingest.records import (
    DECODER,
    HASHED,
    Items,
    ReadOptions,
    RecordError,
    Rejection,
    content_digest,
    without_surrogates,
)
from hepm.types import Object, Outcome, Trajectory, Turn

RECORD_LIMIT: Final = 64 << 20
"""Limit of one line, in bytes. A document that is one JSON value may be four times as long."""

HEAD: Final = 16 << 20
"""Bytes in which lines are looked for; only of a longer document more is read before it is known to have none."""

LOOKED_AT: Final = 100
"""Number of records that a file is recognised by: its first ones may be a header or a note."""


Build: TypeAlias = Callable[[Object], Trajectory]
Built = TypeVar("Built")


class UnreadableError(RecordError):
    """The whole file cannot be read as JSON."""


class RunOrigin:
    """Where runs are read from: it makes them, or says why one cannot be made.

    Attributes:
        name: As people see it.
    """

    def __init__(self, name: str, options: ReadOptions | None = None) -> None:
        self.name = name
        self.options = options or ReadOptions()

    def run(
        self, own_id: str, turns: tuple[Turn, ...], outcome: Outcome, *, file_model: str = "", **about: Any
    ) -> Trajectory:
        """A run of this source with the fields `about`; its id is `own_id`, else a hash of the content.

        `file_model` is the model if only the file's name has it. The hash is without it, since a renamed file holds the
        same runs. RecordError: no messages; else as `content_digest`.
        """
        if not turns:
            raise RecordError("the run holds no messages")
        return self.identified(Trajectory("-", turns, outcome, **about), own_id, file_model)

    def identified(self, run: Trajectory, own_id: str, file_model: str = "") -> Trajectory:
        """A run as one of this source, under an id as in `run`."""
        if self.options.ids == "content":
            own_id = ""
        run = replace(run, id="-", source=self.name)
        digest = content_digest(run)
        # Only for its UnicodeEncodeError: the digest encodes all other texts.
        "".join((own_id, file_model, run.user)).encode()
        return replace(run, id=own_id or HASHED + digest, model=run.model or file_model)

    def rejected(self, record: int | str | None, reason: str) -> Rejection:
        """A rejection of one record, or of the whole if `record` is None."""
        return Rejection(self.name, record, reason)

    def built(self, number: int | str | None, value: Any, build: Callable[[Object], Built]) -> Built | Rejection:
        """What `build` makes of one record, or why it cannot."""
        try:
            if isinstance(value, RecordError):
                raise value
            try:
                return build(as_object(value, "the record"))
            except UnicodeEncodeError:  # half a surrogate pair; hardly any record has one, so none is searched before
                return build(without_surrogates(value))
        except (RecursionError, MemoryError) as error:
            return self.rejected(number, why_undecoded(error))
        except (RecordError, ValueError) as error:  # types.py refuses values that mean nothing
            return self.rejected(number, str(error))


class Document(RunOrigin):
    """The records of a file, or of what a program holds, with what their reader is chosen by.

    Args:
        value: What a program holds, if there is no `source`.
    Attributes:
        path: Where the file lies, without suffixes of compression.
        keys: Keys of its outermost object, or of the first record in its list or lines, or of that one's first element.
        is_list: Whether it is one JSON list.
        is_lines: Whether it is JSON lines.
        records: Each line, element of the outermost list, or the one object, with its number; a RecordError for what
            cannot be decoded.
        sample: The first records that can be decoded.
        first: The first record. It and `keys` are of a later record if `reader_among` found a reader there.
    Raises:
        UnreadableError: it holds no JSON, or neither a list nor an object.
    """

    def __init__(
        self,
        name: str,
        options: ReadOptions,
        *,
        value: Any = None,
        source: SourceFile | None = None,
    ) -> None:
        super().__init__(name, options)
        self.path = source.path if source else PurePosixPath()
        self.keys: Set[str] = frozenset()
        self.is_list = self.is_lines = False
        self.first: Any = None
        self._source = source
        self._value: Any = None
        self.records: Iterator[tuple[int, Any]] = iter(())
        self.sample: list[Any] = []
        if source is None:
            self._take_value(value)
        else:
            self._open(source.stream)

    def _open(self, stream: IO[bytes]) -> None:
        # One byte more: a document of that size is whole, a longer one is not.
        head, reason = read_some(stream, HEAD + 1)
        is_whole = len(head) <= HEAD
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in head[:1024]:
            raise UnreadableError("it is compressed, binary, or text in UTF-16 or UTF-32: unpack it, or make it UTF-8")
        if is_whole:
            with suppress(ValueError, RecursionError, MemoryError):
                self._take_value(DECODER.decode(head.decode("utf-8-sig")))
                return
        head = head.removeprefix(codecs.BOM_UTF8)
        # The last one may lack its end if the file has ended.
        lines = [line for line in io.BytesIO(head) if not line.isspace() and (is_whole or line[-1:] == b"\n")]
        decoded = map(_decoded_line, lines[:LOOKED_AT])
        self.sample = [value for value in decoded if not isinstance(value, RecordError)]
        for value in self.sample[:3]:
            if isinstance(value, dict | list):
                self.records = _line_records(head, stream, reason)
                self.is_lines = True
                self._notice(value)
                return
        if not is_whole and not reason:
            rest, reason = read_some(stream, 4 * RECORD_LIMIT - HEAD)
            head += rest
        values = _values_of(head, reason)
        self._take_value(values[0] if len(values) == 1 else values)
        self.is_list = head.lstrip()[:1] == b"["

    def _take_value(self, value: Any) -> None:
        if not is_list(value) and not is_object(value):
            raise UnreadableError(f"it holds {kind_of(value)}, not runs")
        self.is_list = is_list(value)
        self._value = value
        records = value if is_list(value) else [value]
        self.records = iter(enumerate(records, 1))
        self.sample = records[:LOOKED_AT]
        self._notice(next(iter(records), value))

    @property
    def file_name(self) -> str:
        """Last part of the path; "" if it is no file."""
        return without_surrogates(self.path.name)

    def reader_among(self, readers: Sequence[Reader]) -> Reader | None:
        """The first one that recognises the first record, or else one of the `LOOKED_AT` first ones; None for none.

        If none does, what its one object lists under a usual key becomes its records, and is looked at.
        """
        keys, first = self.keys, self.first
        for record in (first, *self.sample):
            self._notice(record)
            for reader in readers:
                if reader.recognises(self):
                    return reader
        self.keys, self.first = keys, first
        # APIs and exports list there what a bare list would hold, too.
        usual = "data items results runs records rows logs traces sessions trajectories entries"
        for key in usual.split():
            listed = value_at(self._value, key)
            if is_list(listed) and listed and is_object(listed[0]):
                self._take_value(listed)
                return self.reader_among(readers)
        return None

    def content_beside(self, path: str) -> bytes:
        """Content of a file beside this one, by its path from this one's folder; b"" if it cannot be read."""
        return self._source.sibling(path) if self._source else b""

    def beside(self, path: str) -> Object:
        """The object in a file of JSON beside this one; empty if there is none that can be read."""
        try:
            value = DECODER.decode(self.content_beside(path).decode())
        except (ValueError, RecursionError):
            return {}
        return value if is_object(value) else {}

    def each(self, build: Callable[[Object], Built]) -> Iterator[Built | Rejection]:
        """What `build` makes of every record."""
        for number, value in self.records:
            yield self.built(number, value, build)

    def take(self, add: Callable[[Object], None]) -> Iterator[Rejection]:
        """Hand every record to `add`; a rejection for each that it refuses."""
        return (item for item in self.each(add) if item is not None)

    def conversations(
        self, is_message: Callable[[Any], bool], build: Build, group_of: Callable[[Any], str] = lambda message: ""
    ) -> Items:
        """A run of each record, and one of all messages of a group that stand alone in the file.

        A record that is a list is one with these "messages". A group has its name beside its messages, and all others
        under "file".
        """
        alone: list[Any] = []
        groups: dict[str, list[Any]] = {}
        for number, value in self.records:
            if is_message(value):
                alone.append(value)
                groups.setdefault(group_of(value), []).append(value)
            else:
                yield self.built(number, {"messages": value} if is_list(value) else value, build)
        for group, messages in groups.items():
            yield self.built(group or 1, {"messages": messages, "group": group, "file": alone}, build)

    def _notice(self, record: Any) -> None:
        """Take `first` and `keys` from a record; a record that is a list (of messages) has the keys of its first."""
        self.first = record
        if is_list(record) and record:
            record = record[0]
        if is_object(record):
            self.keys = record.keys()


@dataclass(frozen=True, slots=True)
class Reader:
    """One format. `read` raises nothing because of what the file holds.

    Attributes:
        command_names: Whether its shell calls are named by their programs, unless the user says otherwise.
    """

    name: str
    recognises: Callable[[Document], bool]
    read: Callable[[Document], Items]
    command_names: bool = False


def record_reader(
    name: str, recognises: Callable[[Document], bool], build: Callable[[Object, Document], Trajectory]
) -> Reader:
    """The reader of a format in which each record is a run."""
    return Reader(name, recognises, lambda document: document.each(lambda record: build(record, document)))


def _line_records(head: bytes, stream: IO[bytes], reason: str) -> Iterator[tuple[int, Any]]:
    """The lines of a head and the stream behind it with their numbers, decoded.

    A RecordError stands for one that cannot be decoded or is too long, and at the end for damage of the file.
    """
    first = io.BytesIO(head)
    del head
    number = 0
    for number in itertools.count(1):
        line = first.readline(RECORD_LIMIT + 1)
        try:
            if line[-1:] != b"\n" and len(line) <= RECORD_LIMIT and not reason:
                line += stream.readline(RECORD_LIMIT + 1 - len(line))
            if len(line) > RECORD_LIMIT and line[-1:] != b"\n":
                yield number, RecordError(f"it is longer than {RECORD_LIMIT:,} bytes, the limit for one record")
                while line and line[-1:] != b"\n":
                    line = first.readline(1 << 18) or stream.readline(1 << 18)
                continue
        except STREAM_ERRORS as error:
            reason = f"the file is damaged: {error}"
        if not line:
            break
        if not line.isspace():
            value = _decoded_line(line)
            if reason and isinstance(value, RecordError) and line[-1:] != b"\n":
                break  # it is broken because the file is: that is reported once
            yield number, value
    if reason:
        yield number, RecordError(reason)


def _values_of(content: bytes, reason: str) -> list[Any]:
    """The JSON values in a text, one after another; UnreadableError where it is damaged or too long, or no JSON."""
    limit = 4 * RECORD_LIMIT
    if not content.strip():
        reason = reason or "it is empty"
    elif content.lstrip()[:1] not in (b"[", b"{"):
        reason = reason or "it is not JSON: hepm reads runs from JSON and JSON lines"
    elif len(content) > limit:
        reason = f"it is one JSON value of more than {limit:,} bytes: write a record a line"
    if reason:
        raise UnreadableError(reason)
    values: list[Any] = []
    text = ""
    try:
        text = content.decode().strip()
        position = 0
        while position < len(text):
            value, position = DECODER.raw_decode(text, position)
            values.append(value)
            while position < len(text) and text[position] in " \t\n\r":
                position += 1
    except (ValueError, RecursionError, MemoryError) as error:
        reason = why_undecoded(error)
        if isinstance(error, json.JSONDecodeError) and (
            error.msg.startswith("Unterminated string") or error.pos >= len(text) - 1
        ):
            reason = "it ends in the middle: it was cut off"
        raise UnreadableError(reason) from error
    return values


def _decoded_line(line: bytes) -> Any:
    """What a line holds, or a RecordError that says why it cannot be decoded."""
    try:
        return DECODER.decode(line.decode("utf-8-sig"))
    except (ValueError, RecursionError, MemoryError) as error:
        return RecordError(why_undecoded(error))


def why_undecoded(error: Exception) -> str:
    """Why JSON could not be decoded, in a few words."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, MemoryError):
        return "it takes more memory than there is"
    if isinstance(error, UnicodeDecodeError):
        return f"it is not UTF-8 (byte 0x{error.object[error.start]:02x}): convert it"
    if isinstance(error, json.JSONDecodeError):
        # "Unterminated string starting at": the place that would follow counts in a record, not in the file.
        message = error.msg.removesuffix(" at").removesuffix(" starting")
        return f"the JSON is broken: {message}"
    return f"the JSON cannot be used: {error}"  # an integer of thousands of digits
