from __future__ import annotations

import json
import random
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hepm.ingest import ReadOptions
from tests.ingest.samples import read, read_one, read_reason, write
from tests.ingest.test_faults import check, mutate

Item = dict[str, Any]

ITEMS: list[Item] = [
    {"role": "user", "content": "Weather and time?"},
    {"type": "reasoning", "id": "rs_1", "summary": []},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
    {"type": "function_call", "call_id": "a", "name": "get_weather", "arguments": '{"city": "Rome"}'},
    {"type": "custom_tool_call", "call_id": "b", "name": "run_sql", "input": "SELECT 1"},
    {"type": "function_call_output", "call_id": "a", "output": [{"type": "input_text", "text": "sunny"}]},
    {"type": "custom_tool_call_output", "call_id": "b", "output": "1"},
    {"type": "shell_call", "call_id": "c", "action": {"commands": ["git status"]}},
    {"type": "shell_call_output", "call_id": "c", "output": [{"outcome": {"type": "exit", "exit_code": 1}}]},
    {"type": "mcp_call", "id": "d", "name": "search", "arguments": "{}", "error": "no server"},
    {"type": "web_search_call", "id": "e", "action": {"type": "search", "query": "Rome"}, "status": "completed"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Sunny."}]},
]  # fmt: skip

MESSAGES: list[Item] = [
    {"type": "human", "data": {"content": "Weather?"}},
    {
        "type": "ai",
        "data": {
            "content": [{"type": "text", "text": "I look."}, {"type": "tool_use", "id": "a", "name": "get_weather"}],
            "tool_calls": [{"name": "get_weather", "args": {"city": "Rome"}, "id": "a"}],
            "invalid_tool_calls": [{"name": "get_time", "args": "{", "id": "b", "error": "no JSON"}],
        },
    },
    {"type": "tool", "data": {"content": "sunny", "tool_call_id": "a", "status": "success"}},
    {"type": "tool", "data": {"content": "not called", "tool_call_id": "b", "status": "error"}},
]

PYDANTIC_AI: list[Item] = [
    {
        "kind": "request",
        "instructions": "Help.",
        "parts": [{"part_kind": "user-prompt", "content": ["Weather?", {"kind": "image-url", "url": "http://a"}]}],
    },
    {
        "kind": "response",
        "parts": [
            {"part_kind": "text", "content": "I look."},
            {"part_kind": "tool-call", "tool_name": "get_weather", "args": {"city": "Rome"}, "tool_call_id": "a"},
            {"part_kind": "tool-call", "tool_name": "get_time", "args": "{", "tool_call_id": "b"},
            {"part_kind": "tool-call", "tool_name": "book", "args": None, "tool_call_id": "c"},
            {"part_kind": "builtin-tool-call", "tool_name": "web_search", "args": {"q": "Rome"}, "tool_call_id": "d"},
            {"part_kind": "builtin-tool-return", "content": [1, 2], "tool_call_id": "d", "outcome": "success"},
        ],
    },
    {
        "kind": "request",
        "parts": [
            {"part_kind": "tool-return", "content": {"sky": "clear"}, "tool_call_id": "a", "outcome": "success"},
            {"part_kind": "retry-prompt", "tool_name": "get_time", "content": "no JSON", "tool_call_id": "b"},
            {"part_kind": "tool-return", "content": "not allowed", "tool_call_id": "c", "outcome": "denied"},
            {"part_kind": "retry-feedback", "content": "Answer in Latin."},
        ],
    },
]


def constructor(message: Item) -> Item:
    """A message as `dumpd` writes it."""
    names = {"human": "HumanMessage", "ai": "AIMessage", "tool": "ToolMessage"}
    path = ["langchain", "schema", "messages", names[message["type"]]]
    return {"lc": 1, "type": "constructor", "id": path, "kwargs": message["data"]}


def database(path: Path, *sessions: list[Any]) -> Path:
    """A file in the layout of the Agents SDK's SQLiteSession."""
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("CREATE TABLE agent_sessions (session_id TEXT PRIMARY KEY, created_at, updated_at)")
        file.execute("CREATE TABLE agent_messages (id INTEGER PRIMARY KEY, session_id, message_data TEXT, created_at)")
        for number, items in enumerate(sessions, 1):
            rows = [(f"s{number}", item if isinstance(item, str) else json.dumps(item)) for item in items]
            query = (
                "INSERT INTO agent_messages (session_id, message_data, created_at) VALUES (?, ?, '2026-01-01 00:00:00')"
            )
            file.executemany(query, rows)
    return path


@pytest.mark.parametrize("form", ["list", "lines", "record", "request", "database"])
def test_items_are_one_run(tmp_path: Path, form: str):
    path = tmp_path / "items"
    if form == "database":
        database(path, ITEMS)
    elif form == "lines":
        write(path, *ITEMS)
    else:
        asked = {"input": ITEMS[0]["content"], "output": ITEMS[1:], "instructions": "Be brief."}
        write(path, {"list": ITEMS, "record": {"items": ITEMS}, "request": asked}[form])
    run = read_one(path)
    texts = [("system", "Be brief.")] if form == "request" else []
    texts += [("user", "Weather and time?"), ("assistant", "I look."), ("assistant", "Sunny.")]
    assert [(turn.role, turn.text) for turn in run.turns if turn.text] == texts
    assert [[(call.name, call.error) for call in turn.calls] for turn in run.turns if turn.calls] == [
        [("get_weather", None), ("run_sql", None)],
        [("shell", True)],
        [("search", True)],
        [("web_search", None)],
    ]
    results = [call.result for call in run.calls()]
    assert (results[1], results[3]) == ("1", "no server")
    assert run.id == ("s1" if form == "database" else run.id)


def test_a_record_with_items_has_the_facts_of_a_chat_record(tmp_path: Path):
    record = {"id": "r", "task": "t", "success": True, "items": ITEMS}
    runs, rejected = read(write(tmp_path / "a.jsonl", record, {**record, "id": "q", "success": "perhaps"}))
    assert [(run.id, run.task, run.outcome.success) for run in runs] == [("r", "t", True)]
    assert "neither success nor failure" in rejected[0].reason


def test_a_database_gives_its_sessions_and_names_broken_messages(tmp_path: Path):
    path = database(tmp_path / "a.db", ITEMS, ["{torn", ITEMS[0]])
    runs, rejected = read(path)
    assert [(run.id, len(list(run.calls()))) for run in runs] == [("s1", 5), ("s2", 0)]
    assert [one.record for one in rejected] == ["s2, message 1"]


def test_other_and_damaged_databases_are_rejected_in_a_sentence(tmp_path: Path):
    with closing(sqlite3.connect(tmp_path / "other.db")) as file, file:
        file.execute("CREATE TABLE a (b)")
    assert "without the messages of agents" in read_reason(tmp_path / "other.db")
    path = database(tmp_path / "a.db", ITEMS)
    path.write_bytes(path.read_bytes()[:5000])
    assert "the database cannot be read" in read_reason(path)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(database(tmp_path / "b.db", ITEMS), "b.json")
    assert "unpack that first" in read_reason(tmp_path / "a.zip")


@pytest.mark.parametrize("form", ["list", "lines", "constructors", "dumped", "record"])
def test_langchain_messages_are_one_run(tmp_path: Path, form: str):
    dumped = [{"type": message["type"], **message["data"]} for message in MESSAGES]
    value = {"list": MESSAGES, "constructors": list(map(constructor, MESSAGES)), "dumped": dumped}.get(form)
    value = {"id": "r", "messages": MESSAGES} if form == "record" else value
    run = read_one(write(tmp_path / "a.json", *(MESSAGES if form == "lines" else [value])))
    assert [(turn.role, turn.text) for turn in run.turns] == [("user", "Weather?"), ("assistant", "I look.")]
    assert [(call.name, dict(call.arguments), call.result, call.error) for call in run.calls()] == [
        ("get_weather", {"city": "Rome"}, "sunny", False),
        ("get_time", {"_raw": "{"}, "not called", True),
    ]


@pytest.mark.parametrize("form", ["list", "lines", "record"])
def test_messages_of_pydantic_ai_are_one_run(tmp_path: Path, form: str):
    value = {"id": "r", "messages": PYDANTIC_AI} if form == "record" else PYDANTIC_AI
    run = read_one(write(tmp_path / "a.json", *(PYDANTIC_AI if form == "lines" else [value])))
    said = [("system", "Help."), ("user", "Weather?"), ("assistant", "I look."), ("user", "Answer in Latin.")]
    assert [(turn.role, turn.text) for turn in run.turns] == said
    assert [(call.name, dict(call.arguments), call.result, call.error) for call in run.calls()] == [
        ("get_weather", {"city": "Rome"}, '{"sky": "clear"}', False),
        ("get_time", {"_raw": "{"}, "no JSON", True),
        ("book", {}, "not allowed", None),
        ("web_search", {"q": "Rome"}, "[1, 2]", False),
    ]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(
    "values", [[ITEMS], ITEMS, [MESSAGES], list(map(constructor, MESSAGES)), [PYDANTIC_AI]], ids=range(5)
)
def test_records_with_wrong_values_are_read_or_rejected(tmp_path: Path, values: list[Any], seed: int):
    chance = random.Random(seed)
    changed = [mutate(value, chance) if chance.random() < 0.5 else value for value in values]
    check(write(tmp_path / "a.jsonl", *changed))
    for name in ("responses", "langchain", "pydantic-ai"):
        check(write(tmp_path / "a.jsonl", *changed), ReadOptions(format=name))


@pytest.mark.parametrize("cut", range(0, 16384, 997))
def test_a_truncated_database_is_read_or_rejected(tmp_path: Path, cut: int):
    path = database(tmp_path / "a.db", ITEMS)
    path.write_bytes(path.read_bytes()[:cut])
    check(path)
