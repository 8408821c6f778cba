"""Values of a running program as the JSON that readers read: objects of SDKs, pydantic models, dataclasses."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from operator import attrgetter, methodcaller
from pathlib import PurePath
from typing import Any, Final, cast
from uuid import UUID

from hepm.ingest.json_stream import DECODER
from hepm.ingest.records import RecordError

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
    """`value` as JSON text. No SDK is imported: what an object holds is told by `model_dump`, its fields or its keys.

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
    """`value` as lists, dictionaries, texts and numbers alone; the same errors."""
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
    """What `json` does not know, one level down: it asks again for what is inside."""
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
