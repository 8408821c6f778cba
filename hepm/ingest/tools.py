"""What tools there are: lists in records, and lists that a user hands over."""

from __future__ import annotations

import json
import os
from typing import Any

from hepm.errors import FormatError, InputError
from hepm.ingest.compression import STREAM_ERRORS, decompressed
from hepm.ingest.document import without_surrogates
from hepm.ingest.records import Object, RecordError, as_object, is_list, is_object, kind_of, list_at, object_at, text_at
from hepm.types import Tool


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
