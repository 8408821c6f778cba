"""What tools there are: lists in records, and lists that a user hands over."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from hepm.errors import FormatError, InputError
from hepm.ingest.compression import STREAM_ERRORS, decompressed
from hepm.ingest.document import without_surrogates
from hepm.ingest.objects import decoded, is_record
from hepm.ingest.records import Object, RecordError, as_object, is_list, is_object, kind_of, list_at, object_at, text_at
from hepm.types import Tool

_SPEC: Final = ("type", "name", "description", "parameters", "inputSchema", "input_schema", "function", "custom")


class ToolLists:
    """Reads the tool lists of many records, each distinct list once: every run of an environment repeats it."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, tuple[Tool, ...]] = {}

    def read(self, definitions: list[Any]) -> tuple[Tool, ...]:
        """The tools of one list; RecordError where one is not a tool."""
        if not definitions:
            return ()
        key = json.dumps(definitions, ensure_ascii=False)
        tools = self._known.get(key)
        if tools is None:
            key.encode()  # half a surrogate pair is noticed here, by a UnicodeEncodeError as everywhere
            if len(self._known) > 1000:
                self._known.clear()
            tools = self._known[key] = tuple(map(read_tool, definitions))
        return tools


def read_tool(definition: Any) -> Tool:
    """One tool in any of the usual forms.

    Chat Completions wrap it in "function", Responses do not; MCP says "inputSchema" for "parameters".
    """
    record = as_object(definition, "a tool")
    record = as_object(record.get("function", record), "'function'")
    if "custom" in record:
        record = as_object(record["custom"], "'custom'")
    name = text_at(record, "name")
    if not name.strip():
        # Tools that a provider runs itself ({"type": "web_search"}) are called by their type.
        name = text_at(record, "type")
    parameters = next((key for key in ("parameters", "inputSchema", "input_schema") if record.get(key)), "parameters")
    return Tool(name, text_at(record, "description"), object_at(record, parameters))


def read_tools(tools: Iterable[object]) -> tuple[Tool, ...]:
    """The tools that a program lists: names, `Tool`s, and what OpenAI or MCP call a tool, as dictionaries or objects.

    Raises:
        InputError: it is no list, or something in it is no tool.
    """
    if isinstance(tools, str):
        listed = [name.strip() for name in tools.split(",")]
        raise InputError(f"tools is the text {tools!r}: give a list of tools, such as {listed!r}")
    if is_record(tools):
        raise InputError(f"tools is {_shown(tools)}: give a list of tools")
    found: list[Tool] = []
    for tool in tools:
        try:
            found.append(tool if isinstance(tool, Tool) else Tool(tool) if isinstance(tool, str) else _spec(tool))
        except (RecordError, ValueError) as error:
            raise InputError(
                f"tools holds {_shown(tool)}, which is neither a name nor a tool of OpenAI's or MCP's: {error}"
            ) from error
    return tuple(found)


def _spec(tool: object) -> Tool:
    if isinstance(tool, Mapping):
        parts = cast("Mapping[str, object]", tool)
    else:
        parts = {key: getattr(tool, key, None) for key in _SPEC}
    return read_tool(decoded({key: value for key in _SPEC if (value := parts.get(key)) is not None}))


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


def load_tools(path: str | os.PathLike[str]) -> list[Tool]:
    """The tools of a file: an OpenAI tool list, or what an MCP server answers to tools/list.

    Raises:
        InputError: there is no such file, or it cannot be read.
        FormatError: it is no such list.
    """
    name = os.fspath(path)
    try:
        with open(name, "rb") as raw, decompressed(raw, name) as stream:
            content = without_surrogates(json.loads(stream.read()))
    except STREAM_ERRORS as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise InputError(f"{name} cannot be read: {reason or error}") from error
    except (ValueError, RecursionError) as error:
        raise FormatError(
            f"{name} is not JSON ({error}); it should hold an OpenAI tool list or an MCP tools/list result"
        ) from error
    try:
        tools = [read_tool(definition) for definition in _definitions(content)]
    except (RecordError, ValueError) as error:
        raise FormatError(f"{name}: {error}; it should hold an OpenAI tool list or an MCP tools/list result") from error
    return tools


def _definitions(content: Any) -> list[Any]:
    if is_list(content):
        return content
    record: Object = as_object(content, "the content")
    result = record.get("result")
    if is_object(result):
        record = result
    if "tools" not in record:
        raise RecordError(f"it is {kind_of(content)} without 'tools'")
    return list_at(record, "tools")
