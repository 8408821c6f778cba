"""The form of an answer: a frozen dataclass (or a pydantic model), its JSON schema, and the check of a text against it.

pydantic does the work, which the openai package brings. `jsonschema` would be a dependency more, and would leave a
`dict` where this gives the object itself, with what its `__post_init__` demands checked too.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from hepm.errors import InputError
from hepm.llm.library import check_extra

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")
Schema = Mapping[str, Any]

_THOUGHT: Final = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_FENCED: Final = re.compile(r"```[\w-]*\s*\n(.*?)\n?\s*```", re.DOTALL)


@cache
def schema_of(form: type) -> Schema | None:
    """The JSON schema of a form, None for `str`: every field required, no other allowed, as strict output wants it.

    Raises:
        InputError: not an object of fixed fields: some endpoints cannot hold a model to anything else.
        MissingExtraError: pydantic is not installed.
    """
    if form is str:
        return None
    schema = adapter(form).json_schema()
    definitions = schema.get("$defs", {})
    if "$ref" in schema:  # a form that holds itself
        schema = definitions[schema["$ref"].rpartition("/")[2]] | {"$defs": definitions}
    if schema.get("type") != "object":
        raise InputError(f"the form {form.__name__} is no object: wrap what it holds in a dataclass.")
    return _strict(schema, form.__name__)


def read_answer(form: type[T], text: str) -> T:
    """What a text says, as the form. Fences and words around the JSON are looked over, and thoughts before it.

    Raises:
        ValueError: it says none; the text tells why, in words that a model can be shown.
    """
    said = _THOUGHT.sub("", text).strip()
    if form is str:
        if not said:
            raise ValueError("the answer is empty")
        return cast("T", said)
    first_problem: ValueError | None = None
    for candidate in _candidates(said):
        try:
            return _read_json(form, candidate)
        except ValueError as problem:
            first_problem = first_problem or problem
    raise first_problem or ValueError("there is no JSON object in the answer")


def _candidates(said: str) -> Iterator[str]:
    """The parts of a text that may be the JSON: all of it, what is fenced, the first object, what is in braces."""
    if said.startswith("{"):
        yield said
    yield from (fenced for fenced in _FENCED.findall(said) if fenced.lstrip().startswith("{"))
    start, end = said.find("{"), said.rfind("}")
    if not 0 <= start < end:
        return
    with contextlib.suppress(ValueError, RecursionError):
        yield said[start : json.JSONDecoder().raw_decode(said, start)[1]]
    yield said[start : end + 1]


def adapter(form: type[T]) -> TypeAdapter[T]:
    """What reads a form from JSON; made once, for that takes a while."""
    return _made_adapter(form)


@cache
def _made_adapter(form: type) -> Any:
    check_extra()
    from pydantic import TypeAdapter

    return TypeAdapter(form)


def _read_json(form: type[T], text: str) -> T:
    from pydantic import ValidationError

    try:
        json.loads(text, parse_constant=_refuse_constant)  # pydantic would take NaN for a number
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    try:
        return adapter(form).validate_json(text, strict=True, extra="forbid")
    except ValidationError as error:
        # Without the values: they may be private, and errors end up in logs.
        problems = error.errors(include_url=False, include_input=False, include_context=False)
        told = [f"{'.'.join(map(str, one['loc'])) or 'the object'}: {one['msg']}" for one in problems[:10]]
        raise ValueError("; ".join(told)) from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _strict(schema: Schema, form: str) -> dict[str, Any]:
    """The schema with what strict output demands, without what it refuses: titles, defaults, words beside a `$ref`."""
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            kept[key] = {name: _strict(part, form) for name, part in value.items()}
        elif key in ("anyOf", "oneOf"):
            kept["anyOf"] = [_strict(part, form) for part in value]
        elif key == "items":
            kept[key] = _strict(value, form)
        elif key not in ("title", "default", "discriminator"):
            kept[key] = value
    open_object = kept.get("type") == "object" and "properties" not in kept
    if open_object or "prefixItems" in kept:
        raise InputError(
            f"the form {form} holds a mapping or a tuple of fixed length, which strict output cannot say: "
            "use a list of dataclasses."
        )
    if kept.get("type") == "object":
        kept |= {"required": list(kept["properties"]), "additionalProperties": False}
    return kept
