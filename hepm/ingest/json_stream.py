"""JSON decoded piece by piece from a file that need not fit in memory: one element of the wanted lists at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeAlias

from hepm.ingest.records import DECODER, NO_MEMORY, Broken, is_list, is_object

Path: TypeAlias = tuple[str, ...]
Piece: TypeAlias = tuple[Path, int | None, Any]
"""Keys that lead to it, its number from 1 if it is an element of a list, and the decoded value."""

MANY = 4 << 20
"""Lists and objects in one record. Each takes 60 to 230 bytes, its text "[]," 3."""
TOO_MANY = f"it holds more than {MANY:,} lists and objects, the limit for one record"

_CUT_OFF = "it ends in the middle: it was cut off"
_LARGE = 8 << 20
_SPACE = re.compile(r"[ \t\n\r]*")
_NEAR_THE_END = 64  # a number or a word may be cut off here; an error before that is a real one


def too_many(text: str | bytes) -> bool:
    """Whether a record takes many times its length when decoded; brackets inside texts count, too."""
    if len(text) <= _LARGE:
        return False
    if isinstance(text, str):
        return text.count("[") + text.count("{") > MANY
    return text.count(b"[") + text.count(b"{") > MANY


class TextWindow:
    """The unread rest of a document. `more` reads its next characters; a value may have `limit` characters."""

    def __init__(self, more: Callable[[], str], limit: int) -> None:
        self._text = ""
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
        """Skip one punctuation mark; Broken if another character comes."""
        found = self.peek()
        if found != wanted:
            raise Broken(f"{wanted!r} was expected, not {found!r}" if found else _CUT_OFF)
        self._at += 1

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
        if type(key) is not str:
            raise Broken("an object has a key that is not a string")
        self.take(":")
        return key

    def value(self) -> Any:
        """The next whole JSON value; Broken where there is none, or where it exceeds the limit."""
        if not self.peek():
            raise Broken(_CUT_OFF)
        while True:
            try:
                value, end = DECODER.raw_decode(self._text, self._at)
                # A number at the end of the window may go on behind it.
                if (end < len(self._text) and self._text[end] not in ".eE+-") or not self._grow():
                    self._at = end
                    return value
            except json.JSONDecodeError as error:
                unterminated = error.msg.startswith("Unterminated string")
                may_go_on = unterminated or error.pos >= len(self._text) - _NEAR_THE_END
                if not may_go_on or not self._grow():
                    cut = self._ended and (unterminated or error.pos >= len(error.doc) - 1)
                    raise Broken(_CUT_OFF if cut else f"the JSON is broken: {error.msg}") from None
            except ValueError as error:  # an integer of thousands of digits
                raise Broken(f"the JSON cannot be used: {error}") from None
            except RecursionError:
                raise Broken("it is nested too deeply to be read") from None
            except MemoryError:
                raise Broken(NO_MEMORY) from None

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


def walk(window: TextWindow, targets: tuple[Path, ...], path: Path = ()) -> Iterator[Piece]:
    """The pieces of one document in their order: elements of the lists at `targets`, everything else whole.

    A target is the path of keys to a list; "*" stands for any key, () is the document itself.

    Raises:
        Broken: where the document breaks, after the pieces before.
    """
    first = window.peek()
    if first == "[" and _is_target(targets, path):
        for number in window.members("[", "]"):
            yield path, number, window.value()
    elif first == "{" and _leads_to(targets, path):
        for _ in window.members("{", "}"):
            yield from walk(window, targets, (*path, window.key()))
    else:
        yield path, None, window.value()


def walk_decoded(value: Any, targets: tuple[Path, ...], path: Path = ()) -> Iterator[Piece]:
    """The same pieces of a decoded value; the elements of lists come after everything else."""
    if is_list(value) and _is_target(targets, path):
        for number, element in enumerate(value, 1):
            yield path, number, element
    elif is_object(value) and _leads_to(targets, path):
        paths = {(*path, key): member for key, member in value.items()}
        for inner in sorted(paths, key=lambda inner: _is_target(targets, inner) or _leads_to(targets, inner)):
            yield from walk_decoded(paths[inner], targets, inner)
    else:
        yield path, None, value


def _leads_to(targets: tuple[Path, ...], path: Path) -> bool:
    return any(len(target) > len(path) and _fits(target[: len(path)], path) for target in targets)


def _is_target(targets: tuple[Path, ...], path: Path) -> bool:
    return any(len(target) == len(path) and _fits(target, path) for target in targets)


def _fits(target: Path, path: Path) -> bool:
    return all(want in ("*", have) for want, have in zip(target, path, strict=True))


def outline(text: str) -> tuple[str, set[str]]:
    """The first character of a document and the keys of its outermost object, or of the first one in its list.

    `text` is the beginning of the document and may end anywhere; later keys stay unknown.
    """
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
