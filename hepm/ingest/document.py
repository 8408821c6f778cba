"""One open file as its reader sees it: a few facts to recognise it by, then its records one at a time."""

from __future__ import annotations

import codecs
import io
import json
from collections.abc import Callable, Iterator, Set
from contextlib import suppress
from dataclasses import dataclass
from itertools import count, islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from hepm.ingest import fields
from hepm.ingest.json_stream import TOO_MANY, Path, Piece, TextWindow, outline, too_many, walk, walk_decoded
from hepm.ingest.records import (
    DECODER,
    NO_MEMORY,
    Broken,
    Item,
    ReadOptions,
    RecordError,
    Rejection,
    is_list,
    is_object,
    without_surrogates,
)
from hepm.ingest.sources import STREAM_ERRORS, Source, printable
from hepm.types import Trajectory

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

WHOLE: Final = 16 << 20
"""Documents up to this many bytes are decoded at once, which is fastest; longer ones are streamed."""

RECORD_LIMIT: Final = 64 << 20
"""Default limit of one record, in bytes of JSON lines or characters elsewhere."""

LOOKED_AT: Final = 100
"""Number of records that a file is recognised by: its first ones may be a header or a note."""

_OUTLINED: Final = 1 << 20
_CHUNK: Final = 1 << 18
_NOTHING: Final = object()

Build: TypeAlias = Callable[[Any], Trajectory]
Found = TypeVar("Found")


class UnreadableError(RecordError):
    """The whole file cannot be read as JSON."""


class _Bytes(io.RawIOBase):
    """The bytes of a source. A damaged one ends where the damage begins, and `reason` says why."""

    def __init__(self, source: Source) -> None:
        self._head = io.BytesIO(source.head)
        self._stream = source.stream
        self._ended = False
        self.reason = ""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer)
        piece = self.read_some(len(view))
        view[: len(piece)] = piece
        return len(piece)

    def read_some(self, size: int) -> bytes:
        """The next bytes: as many as are there, so that the beginning of a damaged stream is read."""
        piece = self._head.read(size)
        if piece or self._ended:
            return piece
        try:
            piece = getattr(self._stream, "read1", self._stream.read)(size)
        except STREAM_ERRORS as error:
            self.reason = f"the file is damaged: {error}"
        self._ended = not piece
        return piece

    def look(self, size: int) -> bytes:
        """The next bytes, `size` of them unless the file ends; they will be read again."""
        pieces: list[bytes] = []
        while size > 0 and (piece := self.read_some(size)):
            pieces.append(piece)
            size -= len(piece)
        head = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self.unread(head)
        return head

    def unread(self, head: bytes) -> None:
        """Put bytes before the ones that were not read yet."""
        self._head = io.BytesIO(head)


class Document:
    """A source, looked at.

    Attributes:
        keys: Keys of its outermost object, or of the first record in its list or lines, or of that one's first element.
        is_list: Whether it is one JSON list.
        first: The first record, where it has been decoded already.

    `keys` and `first` are those of a later record if `recognised` found one there.
    """

    def __init__(self, source: Source, *, limit: int = RECORD_LIMIT) -> None:
        self.source = source
        self.keys: Set[str] = frozenset()
        self.is_list = False
        self.first: Any = None
        self._limit = limit
        self._value: Any = _NOTHING
        self._lines = False
        self._bytes = _Bytes(source)
        head = self._bytes.look(WHOLE + 1)
        self._complete = len(head) <= WHOLE
        if head.startswith(codecs.BOM_UTF8):
            head = head[3:]
            self._bytes.unread(head)
        _refuse_other_encodings(head)
        if self._complete and self._decode_whole(head):
            self._bytes.unread(b"")
        else:
            self._look_at_lines(head)

    @property
    def name(self) -> str:
        """As shown to people."""
        return self.source.name

    @property
    def file_name(self) -> str:
        """Last part of the path, without suffixes of compression."""
        return printable(self.source.path.name)

    @property
    def is_empty(self) -> bool:
        """Whether it is an empty list or object."""
        return self._value in ([], {})

    def recognised(self, find: Callable[[Document], Found | None]) -> Found | None:
        """What `find` returns for the first record, or else for one of the `LOOKED_AT` first ones; None for none."""
        if (found := find(self)) is not None:
            return found
        keys, first = self.keys, self.first
        for record in self._first_records():
            self._notice(record)
            if (found := find(self)) is not None:
                return found
        self.keys, self.first = keys, first
        return None

    def records(self) -> Iterator[tuple[int, Any]]:
        """Each line, element of the outermost list, or the one object; a RecordError for what cannot be decoded."""
        if self._lines:
            yield from self._line_records()
            return
        for _, number, value in self.walk(()):
            yield number or 1, value

    def walk(self, *targets: Path) -> Iterator[Piece]:
        """The pieces of the document (see `json_stream.walk`); the last one is a Broken where it breaks.

        Each of JSON lines is a document of its own where it leads to a target, and else an element as of a list.
        """
        if self._lines:
            for number, value in self._line_records():
                if is_object(value) and any(target[:1] and target[0] in value for target in targets):
                    yield from walk_decoded(value, targets)
                else:
                    yield (), number, value
            return
        if self._value is not _NOTHING:
            yield from walk_decoded(self._value, targets)
            return
        path: Path = ()
        number: int | None = None
        text = io.TextIOWrapper(io.BufferedReader(self._bytes, _CHUNK), "utf-8", newline="")
        try:
            for path, number, value in walk(TextWindow(lambda: text.read(_CHUNK), self._limit), targets):
                yield path, number, value
        except (Broken, UnicodeDecodeError) as error:
            reason = str(error) if isinstance(error, Broken) else _not_utf8(error)
            yield path, (number or 0) + 1, Broken(f"{reason} ({self._bytes.reason})" if self._bytes.reason else reason)

    def each(self, build: Build) -> Iterator[Item]:
        """What `build` makes of every record."""
        for number, value in self.records():
            yield built(self.name, number, value, build)

    def rejected(self, record: int | str | None, reason: str) -> Rejection:
        """A rejection of one record, or of the file if `record` is None."""
        return Rejection(self.name, record, reason)

    def _decode_whole(self, head: bytes) -> bool:
        try:
            value = DECODER.decode(head.decode())
        except (ValueError, RecursionError, MemoryError):
            return False
        if not is_object(value) and not is_list(value):
            raise UnreadableError(f"it holds {fields.kind_of(value)}, not runs")
        self.is_list = is_list(value)
        self._notice(value[0] if is_list(value) and value else value)
        self._value = value
        return True

    def _look_at_lines(self, head: bytes) -> None:
        """Recognise JSON lines, else a document that is too long or too damaged to be decoded at once."""
        for line in islice(_lines(head), 3):
            if is_object(value := _decoded_line(line)) or is_list(value):
                self._lines = True
                self._notice(value)
                return
        opening, self.keys = outline(head[:_OUTLINED].decode("utf-8", "replace"))
        self._lines = self.file_name.lower().endswith((".jsonl", ".ndjson")) and bool(opening)
        self.is_list = opening == "[" and not self._lines
        if opening not in ("[", "{") and not self._lines:
            empty = "it is not JSON: hepm reads runs from JSON and JSON lines" if opening else "it is empty"
            raise UnreadableError(self._bytes.reason or empty)

    def _first_records(self) -> Iterator[Any]:
        """The first lines or elements that can be decoded; none of one object."""
        if is_list(self._value):
            yield from self._value[:LOOKED_AT]
        elif self._lines or self.is_list:
            head = self._bytes.look(WHOLE + 1)
            if self._lines:
                for line in islice(_lines(head, ended=self._complete), LOOKED_AT):
                    if not isinstance(value := _decoded_line(line), RecordError):
                        yield value
                return
            pieces = iter([head.decode("utf-8", "replace")])
            window = TextWindow(lambda: next(pieces, ""), self._limit)
            with suppress(Broken):  # the head ends in the middle of an element
                yield from (value for _, _, value in islice(walk(window, ((),)), LOOKED_AT))

    def _notice(self, record: Any) -> None:
        self.first = record
        if is_list(record):
            record = record[0] if record else None
        if is_object(record):
            self.keys = record.keys()

    def _line_records(self) -> Iterator[tuple[int, Any]]:
        reader = io.BufferedReader(self._bytes, _CHUNK)
        number = 0
        for number in count(1):
            line = reader.readline(self._limit + 1)
            if not line:
                break
            if len(line) > self._limit and line[-1:] != b"\n":
                yield number, RecordError(f"it is longer than {self._limit:,} bytes, the limit for one record")
                while line and line[-1:] != b"\n":
                    line = reader.readline(_CHUNK)
            elif not line.isspace():
                value = RecordError(TOO_MANY) if too_many(line) else _decoded_line(line)
                if self._bytes.reason and isinstance(value, RecordError) and line[-1:] != b"\n":
                    break  # it is broken because the file is: that is reported once
                yield number, value
        if self._bytes.reason:
            yield number, RecordError(self._bytes.reason)


@dataclass(frozen=True, slots=True)
class Reader:
    """One format. `read` raises nothing because of what the file holds."""

    name: str
    recognises: Callable[[Document], bool]
    read: Callable[[Document, ReadOptions], Iterator[Item]]


def built(file: str, number: int | str | None, value: Any, build: Build) -> Item:
    """What `build` makes of one record of a file, or why it cannot.

    Half a surrogate pair somewhere in the record shows as a UnicodeEncodeError. It is replaced then and not searched
    for before, since hardly any record has one.
    """
    if isinstance(value, RecordError):
        return Rejection(file, number, str(value))
    try:
        try:
            return build(value)
        except UnicodeEncodeError:
            return build(without_surrogates(value))
    except RecursionError:
        return Rejection(file, number, "it is nested too deeply")
    except MemoryError:
        return Rejection(file, number, NO_MEMORY)
    except (RecordError, ValueError) as error:  # types.py refuses values that mean nothing
        return Rejection(file, number, str(error))


def _decoded_line(line: bytes) -> Any:
    try:
        return DECODER.decode(line.decode())
    except UnicodeDecodeError as error:
        return RecordError(_not_utf8(error))
    except json.JSONDecodeError as error:
        return RecordError(f"the JSON is broken: {error.msg}")
    except ValueError as error:  # an integer of thousands of digits
        return RecordError(f"the JSON cannot be used: {error}")
    except RecursionError:
        return RecordError("it is nested too deeply to be read")
    except MemoryError:
        return RecordError(NO_MEMORY)


def _lines(head: bytes, *, ended: bool = False) -> Iterator[bytes]:
    """The lines that hold anything; the last one may lack its end if the file has `ended`."""
    return (line for line in io.BytesIO(head) if (ended or line[-1:] == b"\n") and not line.isspace())


def _refuse_other_encodings(head: bytes) -> None:
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or (
        b"\0" in head[:4].replace(b"\0\0\0\0", b"") and (head[:1] in b"[{" or head[1:2] in b"[{")
    ):
        raise UnreadableError("it is encoded as UTF-16 or UTF-32: convert it to UTF-8")
    if b"\0" in head[:1024]:
        raise UnreadableError("it is a binary file, not JSON")


def _not_utf8(error: UnicodeDecodeError) -> str:
    return f"it is not UTF-8 (byte 0x{error.object[error.start]:02x}): convert it"
