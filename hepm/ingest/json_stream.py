"""JSON decoded piece by piece from a file that need not fit in memory.

A walk goes through the outer shell of a document and hands out what lies at the wanted places, one element at a
time. Only the piece at hand is in memory, and a piece may be `limit` characters long at most.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from hepm.ingest.records import Broken, is_list, is_object

Path: TypeAlias = tuple[str, ...]
Piece: TypeAlias = tuple[Path, int | None, Any]
"""Where it lies, its number from 1 where it is an element of a list, and the decoded value."""

DECODER = json.JSONDecoder(parse_constant=str)
"""NaN and Infinity are no JSON and become text, so that no such number reaches a reward or a vector."""

NO_MEMORY = "it takes more memory than there is"

_LARGE = 8 << 20
MANY = 4 << 20
"""Lists and objects in one record. Each takes 60 to 230 bytes where "[]," takes 3, so a limit on text is none."""

TOO_MANY = f"it holds more than {MANY:,} lists and objects, the limit for one record"

_SPACE = re.compile(r"[ \t\n\r]*")
_NEAR_THE_END = 64  # a number or a word may be cut off here; an error before that is a real one


def too_many(text: str | bytes) -> bool:
    """Whether a record would take many times its length when decoded; brackets inside texts count, too."""
    if len(text) <= _LARGE:
        return False
    if isinstance(text, str):
        return text.count("[") + text.count("{") > MANY
    return text.count(b"[") + text.count(b"{") > MANY


class TextWindow:
    """The unread rest of a document, as far as it has been read from the file."""

    def __init__(self, text: str, more: Callable[[], str], limit: int) -> None:
        self._text = text
        self._more = more
        self._limit = limit
        self._at = 0
        self._ended = False

    def peek(self) -> str:
        """The next character that is not white space; "" at the end."""
        while True:
            space = _SPACE.match(self._text, self._at)
            self._at = space.end() if space else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._grow():
                return ""

    def take(self, wanted: str) -> None:
        """Go past one punctuation mark; Broken where another character stands."""
        found = self.peek()
        if found != wanted:
            raise Broken(
                f"{wanted!r} was expected, not {found!r}" if found else "it ends in the middle: it was cut off"
            )
        self._at += 1

    def value(self) -> Any:
        """The next whole JSON value; Broken where there is none, or where it exceeds the limit."""
        if not self.peek():
            raise Broken("it ends in the middle: it was cut off")
        while True:
            try:
                value, end = DECODER.raw_decode(self._text, self._at)
                # A number at the end of the window may go on behind it.
                if (end < len(self._text) and self._text[end] not in ".eE+-") or not self._grow():
                    self._at = end
                    return value
            except json.JSONDecodeError as error:
                if not self._may_go_on(error) or not self._grow():
                    raise Broken(_reason(error, self._ended)) from None
            except ValueError as error:  # an integer of thousands of digits
                raise Broken(f"the JSON cannot be used: {error}") from None
            except RecursionError:
                raise Broken("it is nested too deeply to be read") from None
            except MemoryError:
                raise Broken(NO_MEMORY) from None

    def key(self) -> str:
        """The next string, which is the key of an object."""
        key = self.value()
        if type(key) is not str:
            raise Broken("an object has a key that is not a string")
        return key

    def _may_go_on(self, error: json.JSONDecodeError) -> bool:
        return error.msg.startswith("Unterminated string") or error.pos >= len(self._text) - _NEAR_THE_END

    def _grow(self) -> bool:
        """Read on, at least doubling the window so that long values are decoded few times; False at the end."""
        if self._ended:
            return False
        pieces: list[str] = [self._text[self._at :]]
        size = wanted = len(pieces[0])
        while size < 2 * wanted or size == wanted:
            if size > self._limit:
                raise Broken(f"it is longer than {self._limit:,} characters, the limit for one record")
            piece = self._more()
            if not piece:
                self._ended = True
                break
            pieces.append(piece)
            size += len(piece)
        self._text = "".join(pieces)
        self._at = 0
        if too_many(self._text):
            raise Broken(TOO_MANY)
        return size > wanted


def _reason(error: json.JSONDecodeError, ended: bool) -> str:
    if ended and (error.pos >= len(error.doc) - 1 or error.msg.startswith("Unterminated string")):
        return "it ends in the middle: it was cut off"
    return f"the JSON is broken: {error.msg}"


def walk(window: TextWindow, targets: tuple[Path, ...]) -> Iterator[Piece]:
    """The pieces of one document in their order: elements of the lists at `targets`, everything else whole.

    A target is the path of keys to a list; "*" stands for any key, () is the document itself.

    Raises:
        Broken: where the document breaks; what came before has been handed out.
    """
    yield from _walk(window, targets, ())


def _walk(window: TextWindow, targets: tuple[Path, ...], path: Path) -> Iterator[Piece]:
    first = window.peek()
    if first == "[" and any(_fits(target, path) for target in targets):
        yield from _elements(window, path)
    elif first == "{" and _leads_to(targets, path):
        yield from _members(window, targets, path)
    else:
        yield path, None, window.value()


def _elements(window: TextWindow, path: Path) -> Iterator[Piece]:
    window.take("[")
    number = 0
    while window.peek() != "]":
        if number:
            window.take(",")
        number += 1
        yield path, number, window.value()
    window.take("]")


def _members(window: TextWindow, targets: tuple[Path, ...], path: Path) -> Iterator[Piece]:
    window.take("{")
    begun = False
    while window.peek() != "}":
        if begun:
            window.take(",")
        begun = True
        key = window.key()
        window.take(":")
        yield from _walk(window, targets, (*path, key))
    window.take("}")


def walk_decoded(value: Any, targets: tuple[Path, ...], path: Path = ()) -> Iterator[Piece]:
    """The same pieces from a value that is decoded already; the elements of lists come last, when all else is known."""
    if is_list(value) and any(_fits(target, path) for target in targets):
        for number, element in enumerate(value, 1):
            yield path, number, element
    elif is_object(value) and _leads_to(targets, path):
        members: list[tuple[Path, Any]] = [((*path, key), member) for key, member in value.items()]
        for inner, member in sorted(
            members, key=lambda member: any(_fits(target[: len(member[0])], member[0]) for target in targets)
        ):
            yield from walk_decoded(member, targets, inner)
    else:
        yield path, None, value


def _leads_to(targets: tuple[Path, ...], path: Path) -> bool:
    return any(len(target) > len(path) and _fits(target[: len(path)], path) for target in targets)


def _fits(target: Path, path: Path) -> bool:
    return len(target) == len(path) and all(want in ("*", have) for want, have in zip(target, path, strict=True))


def outline(text: str) -> tuple[str, frozenset[str]]:
    """The first character of a document and the keys of its outermost object, or of the first one in its list.

    `text` is the beginning of the document and may end anywhere; keys behind its end stay unknown.
    """
    start = _skip(text, 0)
    opening = text[start : start + 1]
    at = _skip(text, start + 1) if opening == "[" else start
    return opening, frozenset(_keys(text, at)) if text[at : at + 1] == "{" else frozenset()


def _keys(text: str, at: int) -> Iterator[str]:
    at += 1
    try:
        while text[(at := _skip(text, at))] == '"':
            key, at = DECODER.raw_decode(text, at)
            yield str(key)
            at = _skip(text, _skip(text, at) + 1)
            _, at = DECODER.raw_decode(text, at)
            at = _skip(text, at) + 1
    except (ValueError, IndexError, RecursionError):
        return


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at
