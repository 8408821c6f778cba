"""How much a body, or what a process remembers, may hold.

Gzip packs a thousand bytes in one, and two bytes of JSON take a hundred in memory.
"""

from __future__ import annotations

import re
import zlib
from collections import OrderedDict
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

MOST_VALUES: Final = 500_000
"""A batch of 512 spans holds a tenth of it, and a conversation less."""


# Every quotation mark starts a match, so that no part of a text is searched twice.
_MARK_OR_STRING: Final = re.compile(rb'[,\[{]|"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_TAG_BITS: Final = 3
K = TypeVar("K")
V = TypeVar("V")
_VARINT, _FIXED_64, _NESTED, _GROUP, _GROUP_END, _FIXED_32 = range(6)


class Bounded(OrderedDict[K, V]):
    """Keeps the `most` keys that were set last."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        while len(self) > self._most:
            self.popitem(last=False)


def is_too_dense(raw: bytes, most: int = MOST_VALUES) -> bool:
    """Whether a JSON text holds more values than `most`, or twice as many marks and texts outside of texts."""
    if raw.count(b",") + raw.count(b"[") + raw.count(b"{") <= most:  # a value follows one of them
        return False
    return any(True for _ in islice(_MARK_OR_STRING.finditer(raw), 2 * most, None))


def has_too_many_fields(raw: bytes, kind: Descriptor, most: int = MOST_VALUES) -> bool:
    """Whether a protobuf message holds more fields than `most`, with those of the messages in it."""
    count, ahead = 0, [(0, len(raw), kind)]
    if len(raw) <= 2 * most:  # a field takes two bytes at least
        return False
    while ahead and count <= most:
        at, end, kind = ahead.pop()
        while at < end and count <= most:
            count += 1
            tag, at = _varint(raw, at)
            wire = tag & (1 << _TAG_BITS) - 1
            if wire == _VARINT:
                _, at = _varint(raw, at)
            elif wire == _NESTED:
                size, at = _varint(raw, at)
                field = kind.fields_by_number.get(tag >> _TAG_BITS)
                if size and field is not None and field.message_type is not None:
                    ahead.append((at, min(at + size, end), field.message_type))
                at += size
            elif wire in (_FIXED_64, _FIXED_32):
                at += 8 if wire == _FIXED_64 else 4
            elif wire not in (_GROUP, _GROUP_END):  # it is no protobuf
                break
    return count > most


def inflated(packed: bytes, limit: int) -> bytes | None:
    """All that gzip or deflate packed; None if that is more than `limit` bytes.

    Raises:
        zlib.error: it is neither, was cut off, or is packed in several parts.
    """
    inflater = zlib.decompressobj(zlib.MAX_WBITS | 32)  # recognises the header of either
    content = inflater.decompress(packed, limit + 1)
    if len(content) > limit:
        return None
    if not inflater.eof or inflater.unused_data:
        raise zlib.error("it was cut off, or something follows it")
    return content


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    """A number and where it ends; a cut-off one ends the text."""
    value = shift = 0
    while at < len(raw) and shift < 64:
        byte = raw[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    return value, len(raw)
