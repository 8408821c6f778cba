"""Records as readers see them: checked access to decoded JSON, values of a program as JSON, and why one is rejected."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import date
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


def is_object(value: object) -> TypeGuard[Object]:
    """Whether a decoded value is a JSON object."""
    return type(value) is dict


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Whether a decoded value is a JSON list."""
    return type(value) is list


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
    """Values of a program as JSON text, also pydantic models, dataclasses and other mappings; else RecordError."""
    try:
        return json.dumps(value, default=_plain)
    except RecursionError as error:
        raise RecordError("it is nested too deeply") from error
    except (TypeError, ValueError) as error:
        raise RecordError(f"it cannot be written as JSON: {error}") from error


def decoded(value: object) -> Any:
    """The same as lists, dictionaries, texts and numbers."""
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
