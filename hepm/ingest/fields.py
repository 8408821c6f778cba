"""Checked access to decoded JSON. A RecordError names the field and what it holds instead."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, TypeGuard

from hepm.ingest.records import RecordError, decoded_text
from hepm.types import Object, Objects


def is_object(value: object) -> TypeGuard[Object]:
    """Whether a decoded value is a JSON object."""
    return type(value) is dict


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Whether a decoded value is a JSON list."""
    return type(value) is list


def kind_of(value: object) -> str:
    """How JSON calls the type of a decoded value, with its article."""
    kinds = {
        "bool": "a boolean", "int": "a number", "float": "a number", "str": "a string", "list": "a list",
        "dict": "an object", "NoneType": "null",
    }  # fmt: skip
    name = type(value).__name__
    return kinds.get(name, name)


def as_object(value: Any, what: str) -> Object:
    """`value` where it is an object; RecordError names `what` otherwise."""
    if type(value) is dict:
        return value  # pyright: ignore[reportUnknownVariableType]  # said in full, not by is_object: this is called often
    raise RecordError(f"{what} is {kind_of(value)}, not an object")


def as_list(value: Any, what: str) -> list[Any]:
    """`value` where it is a list; RecordError names `what` otherwise."""
    if is_list(value):
        return value
    raise RecordError(f"{what} is {kind_of(value)}, not a list")


def object_at(record: Object, path: str) -> Object:
    """The object under a key, or under nested ones, "a.b"; empty where it is absent or null."""
    for key in path.split("."):
        value = record.get(key)
        record = {} if value is None else as_object(value, repr(key))
    return record


def list_at(record: Object, key: str) -> list[Any]:
    """The list under `key`; empty where it is absent or null."""
    value = record.get(key)
    if value is None:
        return []
    return as_list(value, repr(key))


def text_at(record: Object, path: str) -> str:
    """The text or number at a path (see `value_at`) as text; "" where it is absent or null."""
    value = value_at(record, path)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise RecordError(f"{path.partition('|')[0]!r} is {kind_of(value)}, not a string")
    return str(value)


def objects_at(record: Object, key: str, what: str) -> Objects:
    """The objects in the list under `key`, of which one is called `what` in an error; empty where it is absent."""
    return [as_object(value, what) for value in list_at(record, key)]


def string_at(record: Object, key: str) -> str:
    """The text under `key`, "" where it is absent; else RecordError."""
    value = record.get(key, "")
    if not isinstance(value, str):
        raise RecordError(f"{key!r} is {kind_of(value)}, not a string")
    return value


def flag_at(record: Object, key: str) -> bool | None:
    """The boolean under `key`, None where it is absent or null; else RecordError."""
    value = record.get(key)
    if value is not None and type(value) is not bool:
        raise RecordError(f"{key!r} is {kind_of(value)}, not a boolean")
    return value


def number_at(record: Object, key: str) -> float | None:
    """The number under `key`; None where it is absent or null. A boolean counts as 0 or 1."""
    value = record.get(key)
    if value is None:
        return None
    return as_number(value, repr(key))


def as_number(value: Any, what: str) -> float:
    """`value` as a float where it is a number; RecordError otherwise."""
    if not isinstance(value, int | float):
        shown = kind_of(value)
        if isinstance(value, str):
            shown = json.dumps(value)[:40]  # "12 %" says more than "a string"
        raise RecordError(f"{what} is {shown}, not a number")
    try:
        return float(value)
    except OverflowError:  # JSON's integers may have any length
        raise RecordError(f"{what} is too large a number") from None


def value_at(value: Any, path: str) -> Any:
    """The value under nested keys, "a.b" for b inside a; "a.b|c" is the first of several that is there and not null."""
    for alternative in path.split("|"):
        found: Any = value
        for key in alternative.split("."):
            found = found.get(key) if is_object(found) else None
        if found is not None:
            return found
    return None


def first_time(records: Iterable[Any], path: str) -> float | None:
    """The time at a path in the first record that has one; None where none can be read."""
    times = (unix_time(value_at(record, path)) for record in records)
    return next((time for time in times if time is not None), None)


def texts_in(value: Any) -> tuple[str, ...]:
    """The texts in a list; nothing of anything else."""
    if not is_list(value):
        return ()
    return tuple([text for text in value if isinstance(text, str)])


def as_text(value: Any) -> str:
    """A text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def plain_text(content: Any) -> str:
    """The text of a message's `content`: a string, a list of typed parts, or null. Images and the like fall away."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if is_list(content):
        parts = [part if isinstance(part, str) else as_object(part, "a part of a message") for part in content]
        return "\n".join(filter(None, map(part_text, parts)))
    if is_object(content):
        return json.dumps(content, ensure_ascii=False)
    raise RecordError(f"the content of a message is {kind_of(content)}, not text")


def part_text(part: str | Object) -> str:
    """The text of a part of a message; "" of others."""
    if isinstance(part, str):
        return part
    for key in ("text", "content", "refusal"):
        text = part.get(key)
        if isinstance(text, str):
            return text
    return ""


def unix_time(value: Any) -> float | None:
    """Seconds since 1970 of an ISO time, UTC where it names no zone, or of a number in any unit; None for neither."""
    given: Any = value
    if is_list(value) and len(value) == 2:  # seconds and nanoseconds, of JavaScript
        given = value[0]
    is_text = isinstance(given, str)
    try:
        if is_text and not given.isdecimal():
            time = datetime.fromisoformat(given)
            return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
        number = float(given)
    except (TypeError, ValueError, OverflowError):
        return None
    # A short text of digits is a year or a day, true is no time, and so large a number none either.
    if type(given) is bool or (is_text and number < 1e9) or not 0 < number < 1e20:
        return None
    # From which number on it is in nanoseconds, microseconds, milliseconds, and seconds.
    scales = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3), (0, 1))
    return number / next(scale for start, scale in scales if number >= start)


def parsed_json(value: Any) -> Any:
    """What a text holds if that is a JSON list or object, else the value itself."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return decoded_text(value)
        except (ValueError, RecursionError):
            return value
    return value
