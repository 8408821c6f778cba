from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hepm.errors import FormatError, InputError
from hepm.ingest.tools import load_tools
from hepm.types import Tool

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = Tool("weather", "Tells it.", SCHEMA)
CHAT = {"type": "function", "function": {"name": "weather", "description": "Tells it.", "parameters": SCHEMA}}
RESPONSES = {"type": "function", "name": "weather", "description": "Tells it.", "parameters": SCHEMA, "strict": True}
MCP = {"name": "weather", "description": "Tells it.", "inputSchema": SCHEMA}


@pytest.mark.parametrize(
    "content", [[CHAT], [RESPONSES], [MCP], {"tools": [MCP]}, {"jsonrpc": "2.0", "id": 1, "result": {"tools": [MCP]}}]
)
def test_the_usual_forms_say_the_same(tmp_path: Path, content: Any):
    path = tmp_path / "tools.json"
    path.write_text(json.dumps(content))
    assert load_tools(path) == [WEATHER]


def test_a_tool_that_the_provider_runs_is_called_by_its_type(tmp_path: Path):
    path = tmp_path / "tools.json"
    path.write_text('[{"type": "web_search"}]')
    assert load_tools(path) == [Tool("web_search")]


@pytest.mark.parametrize("content", ["", "{", "{}", "5", '[{"name": ""}]', '[{"name": "a", "parameters": []}]'])
def test_what_is_no_list_of_tools_is_a_format_error(tmp_path: Path, content: str):
    path = tmp_path / "tools.json"
    path.write_text(content)
    with pytest.raises(FormatError, match="it should hold an OpenAI tool list or an MCP tools/list result"):
        load_tools(path)


def test_a_missing_file_is_an_input_error(tmp_path: Path):
    with pytest.raises(InputError, match="cannot be read"):
        load_tools(tmp_path / "none.json")
