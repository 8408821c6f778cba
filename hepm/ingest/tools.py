"""Descriptions of tools: lists in records, and lists that a user hands over."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeAlias

from hepm.errors import FormatError, InputError
from hepm.ingest.fields import as_list, as_object, is_list, object_at, text_at, value_at
from hepm.ingest.files import STREAM_ERRORS, open_file
from hepm.ingest.records import DECODER, MAX_NAME, RecordError, decoded, decoded_text, is_record
from hepm.ingest.transitions import own_tool
from hepm.text import cut_off
from hepm.types import Tool

Tools: TypeAlias = tuple[Tool, ...]

_SCHEMAS: Final = ("parameters", "inputSchema", "input_schema", "parametersJsonSchema", "parameters_json_schema")
"""Where tools of OpenAI, of MCP, of Anthropic and of Gemini say what they take."""
_KEYS: Final = ("type", "name", "description", *_SCHEMAS, "function", "custom", "toolSpec")


def listed_tools(definitions: list[Any]) -> Tools:
    """The tools of a record's list; RecordError where one is not a tool."""
    # As text, since lists cannot be looked up in a cache; that is still cheaper than to read each one.
    return _parsed_list(json.dumps(definitions, ensure_ascii=False))


@lru_cache(maxsize=128)  # every run of an environment repeats its list
def _parsed_list(text: str) -> Tools:
    text.encode()  # half a surrogate pair shows here, by a UnicodeEncodeError as everywhere
    tools: list[Any] = []
    for definition in DECODER.decode(text):
        # Gemini lists functions inside one tool.
        functions = value_at(definition, "functionDeclarations|function_declarations")
        tools += functions if is_list(functions) else [definition]
    return _without_own(map(_tool, tools))


def _tool(definition: Any) -> Tool:
    """Chat Completions wrap a tool in "function", Responses do not; MCP has "inputSchema" for "parameters"."""
    record = as_object(definition, "a tool")
    for key in ("function", "custom", "toolSpec"):
        if record.get(key) is not None:
            record = as_object(record[key], repr(key))
    name = text_at(record, "name")
    if not name.strip():
        # Tools that a provider runs itself ({"type": "web_search"}) are called by their type.
        name = text_at(record, "type")
    key = next(filter(record.get, _SCHEMAS), "parameters")
    schema = object_at(record, key)
    if schema.keys() == {"json"}:  # Bedrock's
        schema = object_at(schema, "json")
    return Tool(name, text_at(record, "description"), schema)


def read_tools(tools: Iterable[object]) -> Tools:
    """The tools in a list of names, `Tool`s, and OpenAI's or MCP's dictionaries or objects; else InputError."""
    if isinstance(tools, str):
        listed = [name.strip() for name in tools.split(",")]
        raise InputError(f"tools is the text {tools!r}: give a list of tools, such as {listed!r}")
    if is_record(tools):
        raise InputError(f"tools is {cut_off(repr(tools), 80)}: give a list of tools")
    listed = tuple(tools)
    if set(map(type, listed)) <= {str}:
        return _named_tools(listed)
    return _without_own(map(_read_tool, listed))


@lru_cache(maxsize=128)  # an agent names the same ones at each turn
def _named_tools(names: tuple[str, ...]) -> Tools:
    return _without_own(map(_read_tool, names))


def _read_tool(given: object) -> Tool:
    """A tool of its name, or of what describes it in a dictionary or an object, which may hold functions, too."""
    try:
        if isinstance(given, Tool):
            tool = given
        elif isinstance(given, str):
            tool = Tool(given)
        else:
            held: Any = given
            is_mapping = isinstance(given, Mapping)
            parts = {key: held.get(key) if is_mapping else getattr(held, key, None) for key in _KEYS}
            tool = _tool(decoded(parts))
        if len(tool.name) > MAX_NAME:
            raise RecordError(f"its name has more than {MAX_NAME} characters")
    except (RecordError, ValueError) as error:
        raise InputError(
            f"tools holds {cut_off(repr(given), 80)}, which is neither a name nor a tool of OpenAI's or MCP's: {error}"
        ) from error
    return tool


def _without_own(tools: Iterable[Tool]) -> Tools:
    """Tools without those of hepm itself, which an agent with its MCP server has beside its own."""
    others: list[Tool] = []
    for tool in tools:
        properties = tool.parameters.get("properties")
        if not own_tool(tool.name, properties if isinstance(properties, Mapping) else ()):
            others.append(tool)
    return tuple(others)


def load_tools(path: str | os.PathLike[str]) -> list[Tool]:
    """The tools of a file: an OpenAI tool list, or an MCP server's answer to tools/list.

    Raises:
        InputError: there is no such file, or it cannot be read.
        FormatError: it is no such list.
    """
    file_name = os.fspath(path)
    expected = "it should hold an OpenAI tool list or an MCP tools/list result"
    try:
        with open_file(Path(file_name)) as stream:
            content = decoded_text(stream.read().decode("utf-8-sig"))
    except STREAM_ERRORS as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{file_name} cannot be read: {reason}") from error
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{file_name} is not JSON ({error}); {expected}") from error
    if not is_list(content):  # an answer of MCP's: {"result": {"tools": [...]}} or {"tools": [...]}
        content = value_at(content, "result.tools|tools")
    try:
        return list(_without_own(map(_tool, as_list(content, "'tools'"))))
    except (RecordError, ValueError) as error:
        raise FormatError(f"{file_name}: {error}; {expected}") from error
