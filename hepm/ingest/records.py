"""Records as readers see them: checked access to decoded JSON, values of a program as JSON, and why one is rejected."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from operator import attrgetter, methodcaller
from pathlib import PurePath
from typing import Any, Final, Literal, TypeAlias, TypeGuard, cast
from uuid import UUID

from hepm.errors import FormatError
from hepm.types import Trajectory

Object: TypeAlias = dict[str, Any]
"""A JSON object as decoded: nothing is known of it yet but that its keys are strings."""

SOLVED: Final = 1 - 1e-6
"""The lowest reward that counts as success: benchmarks write 1.0, some after a sum of floats."""

DECODER: Final = json.JSONDecoder(parse_constant=str)
"""Turns NaN and Infinity into text, since they are not JSON: no such number reaches a reward or a vector."""

NO_MEMORY: Final = "it takes more memory than there is"


@dataclass(frozen=True, slots=True)
class Rejection:
    """Something that could not be read, and why.

    Attributes:
        file: As shown to people; "runs.tar.xz!a/b.json" for a member of an archive.
        record: Number of the record from 1 (in JSON lines: the line); None for a whole file.
    """

    file: str
    record: int | str | None
    reason: str


Item: TypeAlias = Trajectory | Rejection


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read.

    Attributes:
        format: A reader's name, or "auto" to recognise each file by its content.
        reward_key, success_key, label_key: Where a chat record keeps its reward, whether it succeeded, and a verdict in
            words or numbers; dots for nested keys ("metadata.score").
        ids: "own" takes a record's id where it has one, "content" always hashes the content.
    """

    format: str = "auto"
    reward_key: str = "reward"
    success_key: str = "success"
    label_key: str = "label"
    ids: Literal["own", "content"] = "own"

    def __post_init__(self) -> None:
        if self.ids not in {"own", "content"}:
            raise FormatError(f"ids are either 'own' or 'content', not {self.ids!r}")


class RecordError(Exception):
    """A record is not what its reader needs; the text becomes the reason of a Rejection."""


class Broken(RecordError):
    """The JSON itself is broken here, so that nothing after it can be trusted."""


_KINDS: Final[dict[type, str]] = {
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "an object",
}


def kind_of(value: object) -> str:
    """How JSON calls the type of a decoded value, with its article."""
    if value is None:
        return "null"
    return _KINDS.get(type(value), type(value).__name__)


def is_object(value: object) -> TypeGuard[Object]:
    """Whether a decoded value is a JSON object."""
    return type(value) is dict


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Whether a decoded value is a JSON list."""
    return type(value) is list


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


def object_at(record: Object, key: str) -> Object:
    """The object under `key`; empty where it is absent or null."""
    value = record.get(key)
    return {} if value is None else as_object(value, repr(key))


def list_at(record: Object, key: str) -> list[Any]:
    """The list under `key`; empty where it is absent or null."""
    value = record.get(key)
    return [] if value is None else as_list(value, repr(key))


def text_at(record: Object, *keys: str) -> str:
    """The first text or number among `keys` as text; "" where all are absent, null or empty."""
    for key in keys:
        value = record.get(key)
        if value is None or value == "":
            continue
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise RecordError(f"{key!r} is {kind_of(value)}, not a string")
        return str(value)
    return ""


def number_at(record: Object, key: str) -> float | None:
    """The number under `key`; None where it is absent or null. A boolean counts as 0 or 1."""
    value = record.get(key)
    return None if value is None else as_number(value, repr(key))


def as_number(value: Any, what: str) -> float:
    """`value` as a float where it is a number; RecordError otherwise."""
    if not isinstance(value, int | float):
        raise RecordError(
            f"{what} is {json.dumps(value)[:40] if isinstance(value, str) else kind_of(value)}, not a number"
        )
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):  # "1e999" is JSON, and infinite as a float
        raise RecordError(f"{what} is too large a number")
    return number


def finite(value: Any) -> Any:
    """`value` with every NaN and infinity inside as text: JSON has no such numbers."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in cast("Sequence[Any]", value)]
    return value


def without_surrogates(value: Any) -> Any:
    """`value` with every half of a surrogate pair replaced, since such text cannot be stored or sent."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if is_list(value):
        return [without_surrogates(item) for item in value]
    if is_object(value):
        return {without_surrogates(key): without_surrogates(item) for key, item in value.items()}
    return value


def plain_text(content: Any) -> str:
    """The text of a message's `content`: a string, a list of typed parts, or null. Images and the like fall away."""
    if type(content) is str:
        return content
    if content is None:
        return ""
    if is_list(content):
        parts = [part if type(part) is str else as_object(part, "a part of a message") for part in content]
        return "\n".join(filter(None, map(_part_text, parts)))
    if is_object(content):
        return json.dumps(content, ensure_ascii=False)
    raise RecordError(f"the content of a message is {kind_of(content)}, not text")


def _part_text(part: str | Object) -> str:
    if type(part) is str:
        return part
    texts = (cast(Object, part).get(key) for key in ("text", "content", "refusal"))
    return next((text for text in texts if type(text) is str), "")


def unix_time(value: Any) -> float | None:
    """Seconds since 1970 of an ISO time or a number, UTC where it names no zone; None where it cannot be read."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return float(value) if 0 < value < 1e11 else None
    try:
        time = datetime.fromisoformat(value)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None


_OPAQUE: Final[Any] = (type, bytes, bytearray, memoryview)
_FORMS: Final[Any] = (
    (Mapping, dict),
    (Sequence, list),
    (date, methodcaller("isoformat")),
    ((UUID, PurePath), str),
    (Decimal, float),
    (Enum, attrgetter("value")),
)


def json_of(value: object) -> str:
    """Values of a program as JSON text: also pydantic models, dataclasses, other mappings, and objects of SDKs.

    Raises:
        RecordError: something in it has no form in JSON.
    """
    try:
        return json.dumps(value, default=_plain)
    except RecursionError as error:
        raise RecordError("it is nested too deeply") from error
    except (TypeError, ValueError) as error:
        raise RecordError(f"it cannot be written as JSON: {error}") from error


def decoded(value: object) -> Any:
    """The same as lists, dictionaries, texts and numbers; the same errors."""
    return DECODER.decode(json_of(value))


def is_record(value: object) -> bool:
    """Whether `value` is one object with named parts, though it may be iterable too, as pydantic's models are."""
    named = isinstance(value, Mapping) or is_dataclass(value) or callable(getattr(value, "model_dump", None))
    return named and not isinstance(value, type)


def is_message(value: object) -> bool:
    """Whether `value` is one chat message rather than a run."""
    if isinstance(value, Mapping):
        record = cast("Mapping[str, object]", value)
        return type(record.get("role")) is str and "messages" not in record
    return is_record(value) and type(getattr(value, "role", None)) is str


def _plain(value: Any) -> Any:
    """What `json` does not know, one level down."""
    if not isinstance(value, _OPAQUE):
        if callable(dump := getattr(value, "model_dump", None)):
            return dump(mode="json", warnings=False)
        if is_dataclass(value):
            return {field.name: getattr(value, field.name) for field in fields(value)}
        for kinds, form in _FORMS:
            if isinstance(value, kinds):
                return form(value)
        if callable(numbers := getattr(value, "tolist", None)):  # numpy's truth values, numbers and arrays
            return numbers()
    raise TypeError(f"{str(value)[:40]!r} is of the type {type(value).__name__}")
