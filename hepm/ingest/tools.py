"""Descriptions of tools: lists in records, and lists that a user hands over."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, cast

from hepm.errors import FormatError, InputError
from hepm.ingest import fields
from hepm.ingest.records import DECODER, RecordError, decoded, is_record, without_surrogates
from hepm.ingest.sources import STREAM_ERRORS, open_file
from hepm.ingest.transitions import own_tool
from hepm.types import Tool

_SPEC: Final = ("type", "name", "description", "parameters", "inputSchema", "input_schema", "function", "custom")


def listed_tools(definitions: list[Any]) -> tuple[Tool, ...]:
    """The tools of a record's list; RecordError where one is not a tool."""
    return _parsed_list(json.dumps(definitions, ensure_ascii=False)) if definitions else ()


@lru_cache(maxsize=128)  # every run of an environment repeats its list
def _parsed_list(text: str) -> tuple[Tool, ...]:
    text.encode()  # half a surrogate pair shows here, by a UnicodeEncodeError as everywhere
    return _without_own(map(_tool, DECODER.decode(text)))


def _tool(definition: Any) -> Tool:
    """Chat Completions wrap a tool in "function", Responses do not; MCP has "inputSchema" for "parameters"."""
    record = fields.as_object(definition, "a tool")
    record = fields.as_object(record.get("function", record), "'function'")
    if "custom" in record:
        record = fields.as_object(record["custom"], "'custom'")
    name = fields.text(record, "name")
    if not name.strip():
        # Tools that a provider runs itself ({"type": "web_search"}) are called by their type.
        name = fields.text(record, "type")
    parameters = next((key for key in ("parameters", "inputSchema", "input_schema") if record.get(key)), "parameters")
    return Tool(name, fields.text(record, "description"), fields.object_at(record, parameters))


def read_tools(tools: Iterable[object]) -> tuple[Tool, ...]:
    """The tools in a list of names, `Tool`s, and OpenAI's or MCP's dictionaries or objects; else InputError."""
    if isinstance(tools, str):
        listed = [name.strip() for name in tools.split(",")]
        raise InputError(f"tools is the text {tools!r}: give a list of tools, such as {listed!r}")
    if is_record(tools):
        raise InputError(f"tools is {_shown(tools)}: give a list of tools")
    listed = tuple(tools)
    return _named_tools(listed) if all(type(tool) is str for tool in listed) else _listed_tools(listed)


@lru_cache(maxsize=128)  # an agent names the same ones at each turn
def _named_tools(names: tuple[str, ...]) -> tuple[Tool, ...]:
    return _listed_tools(names)


def _listed_tools(tools: tuple[object, ...]) -> tuple[Tool, ...]:
    found: list[Tool] = []
    for tool in tools:
        try:
            found.append(tool if isinstance(tool, Tool) else Tool(tool) if isinstance(tool, str) else _of_object(tool))
        except (RecordError, ValueError) as error:
            raise InputError(
                f"tools holds {_shown(tool)}, which is neither a name nor a tool of OpenAI's or MCP's: {error}"
            ) from error
    return _without_own(found)


def _without_own(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    """Tools without those of hepm itself, which an agent with its MCP server has beside its own."""
    return tuple(tool for tool in tools if not own_tool(tool.name, _arguments(tool)))


def _arguments(tool: Tool) -> Iterable[str]:
    properties = tool.parameters.get("properties")
    return properties if isinstance(properties, Mapping) else ()


def _of_object(tool: object) -> Tool:
    if isinstance(tool, Mapping):
        parts = cast("Mapping[str, object]", tool)
    else:
        parts = {key: getattr(tool, key, None) for key in _SPEC}
    return _tool(decoded({key: value for key in _SPEC if (value := parts.get(key)) is not None}))


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


def load_tools(path: str | os.PathLike[str]) -> list[Tool]:
    """The tools of a file: an OpenAI tool list, or an MCP server's answer to tools/list.

    Raises:
        InputError: there is no such file, or it cannot be read.
        FormatError: it is no such list.
    """
    name = os.fspath(path)
    expected = "it should hold an OpenAI tool list or an MCP tools/list result"
    try:
        with open_file(Path(name)) as stream:
            content = without_surrogates(json.loads(stream.read()))
    except STREAM_ERRORS as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise InputError(f"{name} cannot be read: {reason or error}") from error
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{name} is not JSON ({error}); {expected}") from error
    try:
        if not fields.is_list(content):
            record = fields.as_object(content, "the content")
            record = result if fields.is_object(result := record.get("result")) else record
            if "tools" not in record:
                raise RecordError("it is an object without 'tools'")
            content = fields.list_at(record, "tools")
        return list(_without_own(map(_tool, content)))
    except (RecordError, ValueError) as error:
        raise FormatError(f"{name}: {error}; {expected}") from error
