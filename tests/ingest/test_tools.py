from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from hepm.errors import FormatError, InputError
from hepm.ingest.tools import load_tools
from hepm.types import Tool
from tests.cli.chats import chats, write
from tests.faults.command import one_sentence, quick

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


@pytest.mark.parametrize("content", ["", "{}", '[{"name": ""}]', '[{"name": "a", "parameters": []}]'])
def test_what_is_no_list_of_tools_is_a_format_error(tmp_path: Path, content: str):
    path = tmp_path / "tools.json"
    path.write_text(content)
    with pytest.raises(FormatError, match="it should hold an OpenAI tool list or an MCP tools/list result"):
        load_tools(path)


def test_a_missing_file_is_an_input_error(tmp_path: Path):
    with pytest.raises(InputError, match="cannot be read"):
        load_tools(tmp_path / "none.json")


# Files of tools that are damaged, on the command line

TOOLS = b'[{"name": "get_order", "description": "Tells it.' + b" " * 5000 + b'"}]'


@pytest.mark.parametrize(
    ("name", "content"),
    [("tools.json.xz", lzma.compress(TOOLS)[:-30]), ("tools.json.gz", gzip.compress(TOOLS)[:-20])],
    ids=lambda value: value if isinstance(value, str) else "",  # gzip writes the time into its head
)
def test_damaged_tools_stop_an_ingest_with_a_sentence_that_names_them(
    tmp_path: Path, name: str, content: bytes
) -> None:
    log = write(tmp_path / "runs.jsonl", chats(1))
    (tmp_path / name).write_bytes(content)
    sentence = one_sentence(quick("ingest", log, "--tools", tmp_path / name, "--store", tmp_path / "s.hepm"))
    assert f"{name} cannot be read" in sentence
    assert not (tmp_path / "s.hepm").exists()


def test_half_a_surrogate_pair_in_a_description_is_replaced(tmp_path: Path) -> None:
    log = write(tmp_path / "runs.jsonl", chats(1))
    (tmp_path / "tools.json").write_text(
        '[{"name": "get_order", "description": "Tells \\ud83d it.", "parameters": {"a\\ud83d": "b\\ud83d"}}]'
    )
    answer = quick("ingest", log, "--tools", tmp_path / "tools.json", "--store", tmp_path / "s.hepm", "--json")
    assert answer.code == 0, answer.err
    assert answer.json["stored"] == 2
