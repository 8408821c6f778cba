"""One open file as its reader sees it: a few facts to recognise it by, then its records one at a time."""

from __future__ import annotations

import codecs
import io
import json
from collections.abc import Callable, Iterator, Set
from contextlib import suppress
from itertools import islice
from typing import Any, Final, TypeAlias, TypeVar

from hepm.ingest.compression import STREAM_ERRORS
from hepm.ingest.json_stream import (
    DECODER,
    NO_MEMORY,
    TOO_MANY,
    Path,
    Piece,
    TextWindow,
    outline,
    too_many,
    walk,
    walk_decoded,
)
from hepm.ingest.records import Broken, Item, RecordError, Rejection, is_list, is_object, kind_of
from hepm.ingest.sources import Source, printable
from hepm.types import Trajectory

WHOLE: Final = 16 << 20
"""Documents up to this many bytes are decoded at once; that is fastest, and longer ones are streamed."""

RECORD_LIMIT: Final = 64 << 20
"""Default limit of one record, in bytes of JSON lines or characters elsewhere."""

LOOKED_AT: Final = 100
"""So many records are looked at to recognise a file: its first ones may be a header or a note."""

_OUTLINED: Final = 1 << 20
_CHUNK: Final = 1 << 18
_LINE_SUFFIXES: Final = (".jsonl", ".ndjson")
_NOTHING: Final = object()

Record: TypeAlias = tuple[int, Any]
Build: TypeAlias = Callable[[Any], Trajectory]
Found = TypeVar("Found")


class UnreadableError(RecordError):
    """The whole file cannot be read as JSON."""


class Document:
    """A source, looked at.

    Attributes:
        source: Where it comes from.
        keys: Keys of its outermost object, or of the first record in its list or lines, or of that one's first element.
        is_list: Whether it is one JSON list.
        first: The first record, where it has been decoded already.

    `keys` and `first` are those of a later record once `recognised` found one there.
    """

    __slots__ = ("_bytes", "_complete", "_damage", "_limit", "_lines", "_value", "first", "is_list", "keys", "source")

    def __init__(self, source: Source, *, limit: int = RECORD_LIMIT) -> None:
        self.source = source
        self.keys: Set[str] = frozenset()
        self.is_list = False
        self.first: Any = None
        self._limit = limit
        self._damage: str | None = None
        self._value: Any = _NOTHING
        self._bytes = self._read_head()
        self._complete = len(self._bytes) <= WHOLE
        self._lines = False
        if self._bytes.startswith(codecs.BOM_UTF8):
            self._bytes = self._bytes[3:]
        _refuse_other_encodings(self._bytes)
        self._look()

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
        """Whether it is a list or an object of nothing."""
        return self._value in ([], {})

    def recognised(self, find: Callable[[Document], Found | None]) -> Found | None:
        """What `find` says by the first record, or else by one of the `LOOKED_AT` first ones; None by none of them."""
        if (found := find(self)) is not None:
            return found
        keys, first = self.keys, self.first
        for record in self._first_records():
            self._notice(record)
            if (found := find(self)) is not None:
                return found
        self.keys, self.first = keys, first
        return None

    def records(self) -> Iterator[Record]:
        """Each line, element of the outermost list, or the one object; a RecordError for what cannot be decoded."""
        if self._lines:
            yield from self._line_records()
            return
        for _, number, value in self.walk(()):
            yield number or 1, value

    def walk(self, *targets: Path) -> Iterator[Piece]:
        """The pieces of the document (see `json_stream.walk`); the last one is a Broken where it breaks.

        Of JSON lines each is a document of its own where it leads to a target, and else an element as of a list.
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
        try:
            for path, number, value in walk(self._window(), targets):
                yield path, number, value
        except Broken as error:
            reason = f"{error} ({self._damage})" if self._damage else str(error)
            yield path, (number or 0) + 1, Broken(reason)

    def each(self, build: Build) -> Iterator[Item]:
        """What `build` makes of every record."""
        for number, value in self.records():
            yield self.built(number, value, build)

    def built(self, number: int | str | None, value: Any, build: Build) -> Item:
        """What `build` makes of one record, or why it cannot."""
        return built(self.name, number, value, build)

    def rejected(self, record: int | str | None, reason: str) -> Rejection:
        """A rejection of one record, or of the file where `record` is None."""
        return Rejection(self.name, record, reason)

    def _read_head(self) -> bytes:
        pieces: list[bytes] = []
        size = 0
        while size <= WHOLE:
            piece = self._read(WHOLE + 1 - size)
            if not piece:
                break
            pieces.append(piece)
            size += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _read(self, size: int) -> bytes:
        """The next bytes; where the file is damaged it ends, and what was read before is kept."""
        if self._damage is not None:
            return b""
        stream = self.source.stream
        try:
            # read1 hands out what is there, so that a stream damaged further on still gives its beginning.
            return getattr(stream, "read1", stream.read)(size)
        except STREAM_ERRORS as error:
            self._damage = f"the file is damaged: {error}"
            return b""

    def _look(self) -> None:
        if self._complete:
            self._decode_whole()
        if self._value is _NOTHING:
            self._find_lines()
        if self._value is _NOTHING and not self._lines:
            opening, self.keys = outline(self._bytes[:_OUTLINED].decode("utf-8", "replace"))
            self.is_list = opening == "["
            if opening not in ("[", "{"):
                raise UnreadableError(self._what_it_looks_like())

    def _decode_whole(self) -> None:
        try:
            value = DECODER.decode(self._bytes.decode())
        except (ValueError, RecursionError, MemoryError):
            return
        if not is_object(value) and not is_list(value):
            raise UnreadableError(f"it holds {kind_of(value)}, not runs")
        self.is_list = is_list(value)
        self._notice(value[0] if is_list(value) and value else value)
        self._value = value
        self._bytes = b""

    def _first_records(self) -> Iterator[Any]:
        """Of the first lines or elements those that can be decoded; none where the file is one object."""
        if self._lines:
            for line in _first_lines(self._bytes, LOOKED_AT, ended=self._complete):
                if not isinstance(value := _decoded_line(line), RecordError):
                    yield value
        elif is_list(self._value):
            yield from self._value[:LOOKED_AT]
        elif self.is_list:
            window = TextWindow(self._bytes.decode("utf-8", "replace"), lambda: "", self._limit)
            with suppress(Broken):  # the head ends in the middle of an element
                yield from (value for _, _, value in islice(walk(window, ((),)), LOOKED_AT))

    def _notice(self, record: Any) -> None:
        self.first = record
        told: Any = record
        if is_list(record):
            told = record[0] if record else None
        if is_object(told):
            self.keys = told.keys()

    def _find_lines(self) -> None:
        named_so = self.file_name.lower().endswith(_LINE_SUFFIXES)
        for line in _first_lines(self._bytes, 3):
            try:
                value = DECODER.decode(line.decode())
            except (ValueError, RecursionError, MemoryError):
                continue
            if is_object(value) or is_list(value):
                self._lines = True
                self._notice(value)
                return
        if named_so and self._bytes.strip():
            self._lines = True
            _, self.keys = outline(self._bytes[:_OUTLINED].decode("utf-8", "replace"))

    def _what_it_looks_like(self) -> str:
        if self._damage:
            return self._damage
        if not self._bytes.strip():
            return "it is empty"
        return "it is not JSON: hepm reads runs from JSON and JSON lines"

    def _line_records(self) -> Iterator[Record]:
        last = 0
        for number, line in enumerate(self._raw_lines(), 1):
            if isinstance(line, RecordError):
                yield number, line
            elif not line.isspace():
                value = RecordError(TOO_MANY) if too_many(line) else _decoded_line(line)
                if self._damage and isinstance(value, RecordError) and line[-1:] != b"\n":
                    break  # it is broken because the file is: that is told once
                yield number, value
            last = number
        if self._damage:
            yield last + 1, RecordError(self._damage)

    def _raw_lines(self) -> Iterator[bytes | RecordError]:
        """Lines with bounded memory: of one that exceeds the limit only the news comes through."""
        buffer = self._bytes
        self._bytes = b""
        at = 0
        skipping = False
        while True:
            end = buffer.find(b"\n", at)
            if end >= 0:
                if skipping:
                    skipping = False
                elif end - at > self._limit:
                    yield self._too_long()
                else:
                    yield buffer[at : end + 1]
                at = end + 1
                continue
            buffer = b"" if skipping else buffer[at:]
            at = 0
            if len(buffer) > self._limit:
                yield self._too_long()
                buffer, skipping = b"", True
            piece = b"" if self._complete and not skipping and self._damage else self._read(self._wanted(len(buffer)))
            if not piece:
                break
            buffer = piece if skipping or not buffer else buffer + piece
        if buffer and not skipping:
            yield buffer

    def _too_long(self) -> RecordError:
        return RecordError(f"it is longer than {self._limit:,} bytes, the limit for one record")

    def _wanted(self, have: int) -> int:
        """How much to read on to a line of which `have` bytes are there: as much again, but not beyond the limit."""
        return max(_CHUNK, min(have, self._limit + 1 - have))

    def _window(self) -> TextWindow:
        decoder = codecs.getincrementaldecoder("utf-8")()
        head = io.BytesIO(self._bytes)
        self._bytes = b""

        def more() -> str:
            while True:
                piece = head.read(_CHUNK) or self._read(_CHUNK)
                try:
                    text = decoder.decode(piece, final=not piece)
                except UnicodeDecodeError as error:
                    raise Broken(_not_utf8(error)) from None
                if text or not piece:
                    return text

        return TextWindow("", more, self._limit)


def built(file: str, number: int | str | None, value: Any, build: Build) -> Item:
    """What `build` makes of one record of a file, or why it cannot.

    Half a surrogate pair somewhere in the record shows as a UnicodeEncodeError; it is replaced then, and not looked
    for before, since hardly any record holds one.
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


def without_surrogates(value: Any) -> Any:
    """`value` with every half of a surrogate pair replaced, since such text cannot be stored or sent."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if is_list(value):
        return [without_surrogates(item) for item in value]
    if is_object(value):
        return {without_surrogates(key): without_surrogates(item) for key, item in value.items()}
    return value


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


def _first_lines(head: bytes, count: int, *, ended: bool = False) -> Iterator[bytes]:
    """The first lines that hold anything; where the file has `ended`, its last one may lack an end of line."""
    at = 0
    while count and ((end := head.find(b"\n", at)) >= 0 or (ended and at < len(head))):
        line = head[at:end] if end >= 0 else head[at:]
        at += len(line) + 1
        if line.strip():
            count -= 1
            yield line


def _refuse_other_encodings(head: bytes) -> None:
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or (
        b"\0" in head[:4].replace(b"\0\0\0\0", b"") and (head[:1] in b"[{" or head[1:2] in b"[{")
    ):
        raise UnreadableError("it is encoded as UTF-16 or UTF-32: convert it to UTF-8")
    if b"\0" in head[:1024]:
        raise UnreadableError("it is a binary file, not JSON")


def _not_utf8(error: UnicodeDecodeError) -> str:
    return f"it is not UTF-8 (byte 0x{error.object[error.start]:02x}): convert it"
