"""One open file as its reader sees it: a few facts to recognise it by, then its records one at a time.

Files that need not fit in memory are decoded piece by piece: one element of the lists that hold runs at a time.
"""

from __future__ import annotations

import codecs
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from hepm.ingest.fields import as_object, is_list, is_object, kind_of, value_at
from hepm.ingest.files.source_file import SourceFile, printable
from hepm.ingest.files.unreadable import STREAM_ERRORS
from hepm.ingest.records import (
    DECODER,
    Broken,
    Item,
    Items,
    ReadOptions,
    RecordError,
    Rejection,
    identified,
    without_surrogates,
)
from hepm.types import Object, Outcome, Trajectory, Turn

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

WHOLE: Final = 16 << 20
"""Documents up to this many bytes are decoded at once, which is fastest; longer ones are streamed."""

RECORD_LIMIT: Final = 64 << 20
"""Default limit of one record, in bytes of JSON lines or characters elsewhere."""

LOOKED_AT: Final = 100
"""Number of records that a file is recognised by: its first ones may be a header or a note."""

MANY: Final = 4 << 20
"""Lists and objects in one record. Each takes 60 to 230 bytes, its text "[]," 3."""

_TOO_MANY: Final = f"it holds more than {MANY:,} lists and objects, the limit for one record"
_CUT_OFF: Final = "it ends in the middle: it was cut off"
# Bytes or characters of a text whose brackets are counted at all: a shorter one cannot hold too many.
_LARGE: Final = 8 << 20
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_NEAR_THE_END: Final = 64  # a number or a word may be cut off here; an error before that is a real one
# Bytes in which the first keys of a long document are looked for.
_OUTLINED: Final = 1 << 20
# Bytes or characters that are read at a time.
_CHUNK: Final = 1 << 18
_NOTHING: Final = object()
_WRAPPERS: Final = (
    "data", "items", "results", "runs", "records", "rows", "logs", "traces", "sessions", "trajectories", "entries",
)  # fmt: skip
"""Keys under which APIs and exports list what a bare list would hold, too."""

KeyPath: TypeAlias = tuple[str, ...]
Piece: TypeAlias = tuple[KeyPath, int | None, Any]
"""Keys that lead to it, its number from 1 if it is an element of a list, and the decoded value."""

Build: TypeAlias = Callable[[Object], Trajectory]
Match = TypeVar("Match")


class UnreadableError(RecordError):
    """The whole file cannot be read as JSON."""


class TextWindow:
    """The unread rest of a document. `more` reads its next characters; a value may have `limit` characters."""

    def __init__(self, more: Callable[[], str], limit: int) -> None:
        self._text = ""
        self._more = more
        self._limit = limit
        self._position = 0
        self._ended = False

    def peek(self) -> str:
        """The next character that is not white space; "" at the end."""
        while True:
            space = _SPACE.match(self._text, self._position)
            if space:
                self._position = space.end()
            if self._position < len(self._text):
                return self._text[self._position]
            if not self._grow():
                return ""

    def take(self, mark: str) -> None:
        """Skip one punctuation mark; Broken if another character comes."""
        character = self.peek()
        if not character:
            raise Broken(_CUT_OFF)
        if character != mark:
            raise Broken(f"{mark!r} was expected, not {character!r}")
        self._position += 1

    def members(self, opening: str, closing: str) -> Iterator[int]:
        """Skip the marks around and between the members of a list or object; the caller reads each. Numbers from 1."""
        self.take(opening)
        number = 0
        while self.peek() != closing:
            if number:
                self.take(",")
            number += 1
            yield number
        self.take(closing)

    def key(self) -> str:
        """The next key of an object, and skip its colon."""
        key = self.value()
        if not isinstance(key, str):
            raise Broken("an object has a key that is not a string")
        self.take(":")
        return key

    def value(self) -> Any:
        """The next whole JSON value; Broken where there is none, or where it exceeds the limit."""
        if not self.peek():
            raise Broken(_CUT_OFF)
        while True:
            try:
                value, end = DECODER.raw_decode(self._text, self._position)
                # A number at the end of the window may go on behind it: "12" of "12.5e3".
                is_whole = end < len(self._text) and self._text[end] not in ".eE+-"
                if is_whole or not self._grow():
                    self._position = end
                    return value
            except json.JSONDecodeError as error:
                unterminated = error.msg.startswith("Unterminated string")
                may_go_on = unterminated or error.pos >= len(self._text) - _NEAR_THE_END
                if may_go_on and self._grow():
                    continue
                if self._ended and (unterminated or error.pos >= len(error.doc) - 1):
                    raise Broken(_CUT_OFF) from None
                raise Broken(_why_undecoded(error)) from None
            except (ValueError, RecursionError, MemoryError) as error:
                raise Broken(_why_undecoded(error)) from None

    def _grow(self) -> bool:
        """Read on, at least doubling the window so that long values are decoded few times; False at the end."""
        if self._ended:
            return False
        unread = self._text[self._position :]
        pieces: list[str] = [unread]
        size = len(unread)
        # The second condition is for an empty window, whose double is empty, too.
        while size < 2 * len(unread) or size == len(unread):
            # Before reading on: a text without end must not fill the memory.
            if size > self._limit:
                raise Broken(f"it is longer than {self._limit:,} characters, the limit for one record")
            piece = self._more()
            if not piece:
                self._ended = True
                break
            pieces.append(piece)
            size += len(piece)
        self._text = "".join(pieces)
        self._position = 0
        if _too_many(self._text, "[{"):
            raise Broken(_TOO_MANY)
        return size > len(unread)


def walk(window: TextWindow, targets: Sequence[KeyPath], path: KeyPath = ()) -> Iterator[Piece]:
    """The pieces of one document in their order: elements of the lists at `targets`, everything else whole.

    A target is the path of keys to a list; "*" stands for any key, () is the document itself. Broken is raised where
    the document breaks, after the pieces before.
    """
    first = window.peek()
    if first == "[" and () in targets:
        for number in window.members("[", "]"):
            yield path, number, window.value()
    elif first == "{" and any(targets):
        for _ in window.members("{", "}"):
            key = window.key()
            yield from walk(window, _below(targets, key), (*path, key))
    else:
        yield path, None, window.value()


def walk_decoded(value: Any, targets: Sequence[KeyPath], path: KeyPath = ()) -> Iterator[Piece]:
    """The same pieces of a decoded value; the elements of lists come after everything else."""
    if is_list(value) and () in targets:
        for number, element in enumerate(value, 1):
            yield path, number, element
    elif is_object(value) and any(targets):
        # False sorts before True, and sorting is stable: what leads to no list comes first, in the file's order.
        for key in sorted(value, key=lambda key: bool(_below(targets, key))):
            yield from walk_decoded(value[key], _below(targets, key), (*path, key))
    else:
        yield path, None, value


def _below(targets: Sequence[KeyPath], key: str) -> list[KeyPath]:
    """The rest of each target that begins with `key`: ("simulations",) of ("runs", "simulations") below "runs"."""
    rests: list[KeyPath] = []
    for target in targets:
        if target[:1] in ((key,), ("*",)):
            rests.append(target[1:])
    return rests


def outline(text: str) -> tuple[str, set[str]]:
    """The first character of a document that begins with `text`, and the first keys of its first object."""
    pieces = iter([text])
    window = TextWindow(lambda: next(pieces, ""), len(text))
    opening = window.peek()
    keys: set[str] = set()
    with suppress(Broken):
        if opening == "[":
            window.take("[")
        for _ in window.members("{", "}"):
            keys.add(window.key())
            window.value()
    return opening, keys


class _Bytes(io.RawIOBase):
    """The bytes of a source. A damaged one ends where the damage begins, and `reason` says why."""

    def __init__(self, source: SourceFile) -> None:
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
        # `read` would wait for all `size` bytes, and lose those before the damage; raw streams have no `read1`.
        read = getattr(self._stream, "read1", self._stream.read)
        try:
            piece = read(size)
        except STREAM_ERRORS as error:
            self.reason = f"the file is damaged: {error}"
        self._ended = not piece
        return piece

    def look(self, size: int) -> bytes:
        """The next bytes, `size` of them unless the file ends; they will be read again."""
        pieces: list[bytes] = []
        while size > 0:
            piece = self.read_some(size)
            if not piece:
                break
            pieces.append(piece)
            size -= len(piece)
        head = b"".join(pieces)
        self.unread(head)
        return head

    def unread(self, head: bytes) -> None:
        """Put bytes before the ones that were not read yet."""
        self._head = io.BytesIO(head)


class RunOrigin:
    """Where runs are read from: it makes them, or says why one cannot be made.

    Attributes:
        name: As people see it.
    """

    def __init__(self, name: str, options: ReadOptions | None = None) -> None:
        self.name = name
        self.options = options or ReadOptions()

    def run(self, own_id: str, turns: tuple[Turn, ...], outcome: Outcome, **about: Any) -> Trajectory:
        """A run of this source: see `identified`."""
        return identified(self.options.own_id(own_id), turns, outcome, source=self.name, **about)

    def rejected(self, record: int | str | None, reason: str) -> Rejection:
        """A rejection of one record, or of the whole if `record` is None."""
        return Rejection(self.name, record, reason)

    def built(self, number: int | str | None, value: Any, build: Build) -> Item:
        """What `build` makes of one record, or why it cannot."""
        if isinstance(value, RecordError):
            return self.rejected(number, str(value))
        try:
            try:
                return build(as_object(value, "the record"))
            except UnicodeEncodeError:  # half a surrogate pair; hardly any record has one, so none is searched before
                return build(without_surrogates(value))
        except (RecursionError, MemoryError) as error:
            return self.rejected(number, _why_undecoded(error))
        except (RecordError, ValueError) as error:  # types.py refuses values that mean nothing
            return self.rejected(number, str(error))


class Document(RunOrigin):
    """An open source, with what its reader is chosen by.

    Attributes:
        file_name: Last part of the path, without suffixes of compression.
        keys: Keys of its outermost object, or of the first record in its list or lines, or of that one's first element.
        is_list: Whether it is one JSON list.
        first: The first record, if it is decoded. It and `keys` are of a later record if `recognised` found one there.
    """

    def __init__(self, source: SourceFile, options: ReadOptions | None = None, *, limit: int = RECORD_LIMIT) -> None:
        super().__init__(source.name, options)
        self.source = source
        self.file_name = printable(source.path.name)
        self.keys: Set[str] = frozenset()
        self.is_list = False
        self.first: Any = None
        self._limit = limit
        self._value: Any = _NOTHING
        self._lines = False
        self._root: KeyPath = ()
        self._bytes = _Bytes(source)
        # One byte more than is decoded at once tells a document of that size from a longer one.
        self._looks = WHOLE + 1
        head = self._bytes.look(self._looks)
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
    def is_lines(self) -> bool:
        """Whether it is JSON lines."""
        return self._lines

    @property
    def is_empty(self) -> bool:
        """Whether it is an empty list or object."""
        return self._value in ([], {})

    def recognised(self, find: Callable[[Document], Match | None]) -> Match | None:
        """What `find` returns for the first record, or else for one of the `LOOKED_AT` first ones; None for none."""
        match = find(self)
        if match is not None:
            return match
        keys, first = self.keys, self.first
        for record in self.first_records():
            self._notice(record)
            match = find(self)
            if match is not None:
                return match
        self.keys, self.first = keys, first
        return None

    def records(self) -> Iterator[tuple[int, Any]]:
        """Each line, element of the outermost list, or the one object; a RecordError for what cannot be decoded."""
        if self._lines:
            yield from self._line_records()
            return
        for path, number, value in self.walk(self._root):
            if path == self._root or isinstance(value, Broken):
                yield number or 1, value

    def beside(self, path: str) -> Object:
        """The object in a file of JSON beside this one; empty if there is none that can be read."""
        try:
            value = DECODER.decode((self.source.sibling(path) or b"{}").decode())
        except (ValueError, RecursionError):
            return {}
        return value if is_object(value) else {}

    def unwrap(self) -> bool:
        """Whether its one object lists records under a usual key: then they are its records from now on."""
        if self.is_list or self._lines:
            return False
        for key in _WRAPPERS:
            if key in self.keys:
                self._root = (key,)
                first = next(self.first_records(), None)
                if is_object(first):
                    self.is_list = True
                    self._notice(first)
                    return True
                self._root = ()
        return False

    def walk(self, *targets: KeyPath) -> Iterator[Piece]:
        """The pieces of the document (see `walk`); the last one is a Broken where it breaks.

        Each of JSON lines is a document of its own where it leads to a target, and else an element as of a list.
        """
        if self._lines:
            first_keys = [target[0] for target in targets if target]
            for number, value in self._line_records():
                if is_object(value) and any(key in value for key in first_keys):
                    yield from walk_decoded(value, targets)
                else:
                    yield (), number, value
        elif self._value is not _NOTHING:
            yield from walk_decoded(self._value, targets)
        else:
            yield from self._walk_stream(targets)

    def _walk_stream(self, targets: Sequence[KeyPath]) -> Iterator[Piece]:
        """The pieces of a document that is too long or too damaged to be decoded at once."""
        path, number = (), None
        text = io.TextIOWrapper(io.BufferedReader(self._bytes, _CHUNK), "utf-8", newline="")
        window = TextWindow(lambda: text.read(_CHUNK), self._limit)
        try:
            for path, number, value in walk(window, targets):
                yield path, number, value
            while window.peek() == "{":  # objects one after another, over several lines each
                number = (number or 1) + 1
                yield (), number, window.value()
        except (Broken, UnicodeDecodeError) as error:
            reason = str(error)
            if not isinstance(error, Broken):
                reason = _why_undecoded(error)
            if self._bytes.reason:
                reason = f"{reason} ({self._bytes.reason})"
            yield path, (number or 0) + 1, Broken(reason)

    def each(self, build: Build) -> Items:
        """What `build` makes of every record."""
        for number, value in self.records():
            yield self.built(number, value, build)

    def take(self, add: Callable[[Object], Iterable[str] | None]) -> Iterator[Rejection]:
        """Hand every record to `add`, which may say what it refuses in one; a rejection for each reason."""
        for number, value in self.records():
            try:
                if isinstance(value, RecordError):
                    raise value
                for reason in add(as_object(value, "the record")) or ():
                    yield self.rejected(number, reason)
            except (RecordError, RecursionError) as error:
                yield self.rejected(number, str(error) if isinstance(error, RecordError) else _why_undecoded(error))

    def conversations(self, is_message: Callable[[Any], bool], build: Build) -> Items:
        """A run of each record, and one of all messages that stand alone in the file, unless it is a list that breaks.

        A record that is a list is one with these "messages".
        """
        alone: list[Any] = []
        broken = False
        for number, value in self.records():
            broken = broken or isinstance(value, RecordError)
            if is_message(value):
                alone.append(value)
            else:
                yield self.built(number, {"messages": value} if is_list(value) else value, build)
        if alone and not (broken and self.is_list):
            yield self.built(1, {"messages": alone}, build)

    def _decode_whole(self, head: bytes) -> bool:
        try:
            value = DECODER.decode(head.decode())
        except (ValueError, RecursionError, MemoryError):
            return False
        self.is_list = is_list(value)
        if not self.is_list and not is_object(value):
            raise UnreadableError(f"it holds {kind_of(value)}, not runs")
        if is_list(value) and value:
            self._notice(value[0])
        else:
            self._notice(value)
        self._value = value
        return True

    def _look_at_lines(self, head: bytes) -> None:
        """Recognise JSON lines, else a document that is too long or too damaged to be decoded at once."""
        for line in islice(_lines(head), 3):
            value = _decoded_line(line)
            if isinstance(value, dict | list):
                self._lines = True
                self._notice(value)
                return
        opening, self.keys = outline(head[:_OUTLINED].decode("utf-8", "replace"))
        self._lines = self.file_name.lower().endswith((".jsonl", ".ndjson")) and bool(opening)
        self.is_list = opening == "[" and not self._lines
        if opening not in ("[", "{") and not self._lines:
            reason = self._bytes.reason
            if not reason and not opening:
                reason = "it is empty"
            raise UnreadableError(reason or "it is not JSON: hepm reads runs from JSON and JSON lines")

    def first_records(self) -> Iterator[Any]:
        """The first lines or elements that can be decoded, to recognise the file; none of one object."""
        decoded = self._value
        if self._root:
            decoded = value_at(decoded, self._root[0])
        if is_list(decoded):
            yield from decoded[:LOOKED_AT]
        elif self._lines:
            head = self._bytes.look(self._looks)
            for line in islice(_lines(head, ended=self._complete), LOOKED_AT):
                value = _decoded_line(line)
                if not isinstance(value, RecordError):
                    yield value
        elif self.is_list or self._root:
            pieces = iter([self._bytes.look(WHOLE + 1).decode("utf-8", "replace")])
            window = TextWindow(lambda: next(pieces, ""), self._limit)
            with suppress(Broken):  # the head ends in the middle of an element
                for path, number, value in islice(walk(window, (self._root,)), LOOKED_AT):
                    if path == self._root and number:
                        yield value

    def _notice(self, record: Any) -> None:
        """Take `first` and `keys` from a record; a record that is a list (of messages) has the keys of its first."""
        self.first = record
        if is_list(record) and record:
            record = record[0]
        if is_object(record):
            self.keys = record.keys()

    def _line_records(self) -> Iterator[tuple[int, Any]]:
        reader = io.BufferedReader(self._bytes, _CHUNK)
        number = 0
        while True:
            number += 1
            line = reader.readline(self._limit + 1)
            if not line:
                break
            if len(line) > self._limit and line[-1:] != b"\n":
                yield number, RecordError(f"it is longer than {self._limit:,} bytes, the limit for one record")
                while line and line[-1:] != b"\n":
                    line = reader.readline(_CHUNK)
            elif not line.isspace():
                value = RecordError(_TOO_MANY) if _too_many(line, (b"[", b"{")) else _decoded_line(line)
                if self._bytes.reason and isinstance(value, RecordError) and line[-1:] != b"\n":
                    break  # it is broken because the file is: that is reported once
                yield number, value
        if self._bytes.reason:
            yield number, RecordError(self._bytes.reason)


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


def _decoded_line(line: bytes) -> Any:
    """What a line holds, or a RecordError that says why it cannot be decoded."""
    try:
        return DECODER.decode(line.decode())
    except (ValueError, RecursionError, MemoryError) as error:
        return RecordError(_why_undecoded(error))


def _why_undecoded(error: Exception) -> str:
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


def _too_many(text: Any, opening: Any) -> bool:
    # Such a record takes many times its length when decoded. Brackets inside texts count, too.
    return len(text) > _LARGE and sum(map(text.count, opening)) > MANY


def _lines(head: bytes, *, ended: bool = False) -> Iterator[bytes]:
    """The lines that hold anything; the last one may lack its end if the file has `ended`."""
    for line in io.BytesIO(head):
        is_whole = ended or line[-1:] == b"\n"
        if is_whole and not line.isspace():
            yield line


def _refuse_other_encodings(head: bytes) -> None:
    # Without a mark, "[" or "{" with zeros beside it: b"{\0" is UTF-16, b"{\0\0\0" UTF-32. Four zeros are no text.
    has_zeros = b"\0" in head[:4].replace(b"\0\0\0\0", b"")
    is_wide = has_zeros and (head[:1] in b"[{" or head[1:2] in b"[{")
    if is_wide or head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UnreadableError("it is encoded as UTF-16 or UTF-32: convert it to UTF-8")
    if b"\0" in head[:1024]:
        raise UnreadableError("it is a binary file, not JSON")
