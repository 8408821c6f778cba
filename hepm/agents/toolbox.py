"""Tools of an agent: Python functions and specifications, as a model is sent them and as it calls them."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from typing import Any, TypeAlias, cast, get_type_hints

from hepm.agents.wire import object_in
from hepm.errors import InputError, MissingExtraError
from hepm.ingest.fields import is_object
from hepm.ingest.formats.turns import RAW
from hepm.text import what_is_wrong
from hepm.types import Object, Objects

AnyTool: TypeAlias = Callable[..., object] | Mapping[str, Any]
Execute: TypeAlias = Callable[[str, Object], object]
"""Calls a tool by its name and arguments."""
_Described: TypeAlias = tuple[Object, Callable[[Object], object]]
"""A tool as a model is sent it, and what calls it with its arguments."""


class Toolbox:
    """Tools by name.

    Args:
        tools: Python functions, described by their annotations and docstrings, or OpenAI's specifications of functions.
        execute: Calls a tool that is a specification, by its name and arguments.
    Raises:
        InputError: a tool cannot be described or called.
        MissingExtraError: pydantic is not installed.
    """

    def __init__(self, tools: Iterable[AnyTool], execute: Execute | None = None) -> None:
        if find_spec("pydantic") is None:
            raise MissingExtraError("an agent's tools need pydantic: pip install 'hepm[llm]'.")
        self.specs: Objects = []
        self._calls: dict[str, Callable[[Object], object]] = {}
        for tool in tools:
            spec, call = _of_function(tool) if callable(tool) else _of_spec(tool, execute)
            name = spec["function"]["name"]
            if name in self._calls:
                raise InputError(f"two tools are called {name!r}: rename one of them")
            self.specs.append(spec)
            self._calls[name] = call

    def call(self, name: str, arguments: str) -> tuple[Object, str, bool]:
        """Call a tool as a model asks; returns the arguments, the result or error as text, and whether it failed."""
        from pydantic import ValidationError
        from pydantic_core import to_json

        try:
            given = json.loads(arguments or "{}")
        except (ValueError, RecursionError) as error:
            return {RAW: arguments}, f"Error: the arguments are no JSON: {error}", True
        if not is_object(given):
            return {RAW: arguments}, "Error: the arguments are no JSON object", True
        if name not in self._calls:
            return given, f"Error: there is no tool {name!r}. There are: {', '.join(self._calls)}", True
        try:
            result = self._calls[name](given)
        except ValidationError as error:
            return given, f"Error: {what_is_wrong(error)}", True
        except Exception as error:  # the model reads it, and may do better
            return given, f"Error: {error or type(error).__name__}", True
        if not isinstance(result, str):
            result = to_json(result, fallback=str).decode()
        return given, result, False


def _of_function(function: Callable[..., object]) -> _Described:
    from pydantic import TypeAdapter, validate_call
    from pydantic.errors import PydanticUserError

    name = getattr(function, "__name__", "")
    if not name.isidentifier() or inspect.iscoroutinefunction(function):
        raise InputError(f"the tool {function!r} is no named function that returns its result itself: wrap it in one")

    def resolved(**arguments: Any) -> object:
        return function(**arguments)

    try:
        # pydantic looks for the names in annotations here, not in the tool's module: give it the types.
        resolved.__annotations__ = get_type_hints(function, include_extras=True)
        vars(resolved)["__signature__"] = inspect.signature(function)
        checked = validate_call(resolved)
        described: Any = TypeAdapter(cast("Any", resolved))
        parameters = described.json_schema(schema_generator=_untitled())
    except (PydanticUserError, NameError, TypeError) as error:
        raise InputError(f"the parameters of the tool {name!r} cannot be described: {error}") from error
    about = {"name": name, "description": inspect.getdoc(function) or "", "parameters": parameters}
    return {"type": "function", "function": about}, lambda arguments: checked(**arguments)


def _untitled() -> Any:
    from pydantic.json_schema import GenerateJsonSchema

    class Untitled(GenerateJsonSchema):
        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

    return Untitled


def _of_spec(spec: Mapping[str, Any], execute: Execute | None) -> _Described:
    name = object_in(spec.get("function")).get("name")
    if not isinstance(name, str) or not name:
        raise InputError(f"{str(dict(spec))[:80]} is no tool: write {{'type': 'function', 'function': {{'name': …}}}}")
    if execute is None:
        raise InputError(f"the tool {name!r} is a specification: say with execute= how it is called")
    return dict(spec), lambda arguments: execute(name, arguments)
