"""Runs that a program holds: messages as SDKs answer them, dictionaries of every format, tools in every form."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from openai.types.chat import ChatCompletionMessage, ParsedChatCompletionMessage
from openai.types.responses import FunctionTool
from pydantic import BaseModel

from hepm import Memory, Trajectory, from_messages
from hepm.errors import InputError
from hepm.ingest.records import ReadOptions
from hepm.ingest.tools import read_tools
from hepm.types import Tool
from tests.ingest.samples import AGENTDOJO, ATIF, CHAT, ONE_DOCUMENT, TAU, TAU2, write
from tests.runs import exported_runs, trajectory


def answered(*calls: tuple[str, dict[str, Any]], text: str | None = None) -> ChatCompletionMessage:
    """The message of a response, as the SDK makes it of what an endpoint sent."""
    functions = [{"name": name, "arguments": json.dumps(arguments)} for name, arguments in calls]
    made = [{"id": f"call-{at}", "type": "function", "function": one} for at, one in enumerate(functions)]
    return ChatCompletionMessage.model_validate({"role": "assistant", "content": text, "tool_calls": made or None})


def conversation(order: int = 7) -> list[Any]:
    """What an agent's loop holds in the end: dictionaries of its own, and the SDK's objects between them."""
    return [
        {"role": "user", "content": f"Refund order {order}, please."},
        answered(("get_order", {"id": order}), ("get_user", {})),
        {"role": "tool", "tool_call_id": "call-1", "content": "Ann"},
        {"role": "tool", "tool_call_id": "call-0", "content": "delivered"},
        answered(("refund", {"id": order})),
        {"role": "tool", "tool_call_id": "call-0", "content": "done"},
        answered(text="It is done."),
    ]


# Messages


def test_the_messages_of_a_loop_are_one_run_that_suggestions_learn_from(memory: Memory) -> None:
    report = memory.ingest(from_messages(conversation(), id="run-1", task="refund", success=True))
    assert (report.stored, report.rejected) == (1, [])
    found = memory.suggest(messages=conversation(8)[:4])
    assert [suggestion.tool for suggestion in found] == ["refund"]
    assert "refund" in memory.prompt(conversation(8)[:4]).text


def test_the_sdks_messages_say_the_same_as_dictionaries(memory: Memory) -> None:
    plain = [one if isinstance(one, dict) else one.model_dump() for one in conversation()]
    memory.ingest(from_messages(conversation(), success=True))
    assert memory.ingest(from_messages(plain, success=True)).duplicates == 1
    calls = [[call["name"] for call in turn.get("calls", ())] for turn in exported_runs(memory)[0]["turns"]]
    assert calls == [[], ["get_order", "get_user"], ["refund"], []]


def test_what_is_said_of_the_run_is_stored_with_it(memory: Memory) -> None:
    about: dict[str, Any] = {"task": "refund", "reward": 0.25, "environment": "shop", "user": "ann", "model": "small"}
    memory.ingest(from_messages(conversation(), id="run-1", **about), namespace="desk")
    (run,) = exported_runs(memory, "desk")
    del run["turns"]
    assert run == {"hepm": 2, "id": "run-1", **about, "source": "<python>"}


@dataclass
class Said:
    role: str
    content: str
    tool_calls: list[Any] = field(default_factory=list[Any])


class Model(BaseModel):
    role: str
    content: str
    at: datetime = datetime(2026, 1, 1, tzinfo=UTC)


class Answer(BaseModel):
    refunded: bool


@pytest.mark.parametrize(
    "message",
    [
        Said("user", "Hello"),
        Model(role="user", content="Hello"),
        {"role": "user", "content": "Hello", "id": UUID(int=1), "at": datetime(2026, 1, 1, tzinfo=UTC)},
    ],
)
def test_whatever_has_a_role_and_content_is_a_message(memory: Memory, message: Any) -> None:
    memory.ingest(from_messages(deque([message]), success=np.bool_(True)))
    assert exported_runs(memory)[0]["turns"] == [{"role": "user", "text": "Hello"}]


def test_a_parsed_message_is_read_without_a_warning(memory: Memory) -> None:
    parsed = ParsedChatCompletionMessage[Answer](role="assistant", content="{}", parsed=Answer(refunded=True))
    assert memory.ingest(from_messages([parsed], success=True)).stored == 1


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ("hello", "'messages' is a string, not a list"),
        ([], "the run holds no messages"),
        ([{"role": "bot", "content": ""}], 'a message has the role "bot", not one of system'),
        ([{"choices": []}], r"a message is a whole response: give its choices\[0\].message"),
        ([{"type": "function_call", "name": "a"}], "a message is an item of the Responses API"),
        ([{"role": "user", "content": b"a"}], "it cannot be written as JSON: .* is of the type bytes"),
        ([object()], "is of the type object"),
    ],
)
def test_what_are_no_messages_is_an_input_error_and_stores_nothing(memory: Memory, messages: Any, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        memory.ingest(from_messages(messages, success=True))
    assert memory.namespaces() == []


def test_a_bare_list_of_messages_is_not_taken_for_many_runs(memory: Memory) -> None:
    for messages in (conversation(), conversation()[1:], (Said("user", "Hello"),)):
        with pytest.raises(InputError, match=r"call ingest\(from_messages\("):
            memory.ingest(messages)


# Records


@pytest.mark.parametrize("name", ONE_DOCUMENT)
def test_what_a_file_of_any_format_holds_is_read_alike_from_python(memory: Memory, tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "run.json", ONE_DOCUMENT[name])
    options = ReadOptions(ids="content")
    from_file = memory.ingest(path, reading=options)
    from_python = memory.ingest(ONE_DOCUMENT[name], reading=options)
    assert from_file.stored > 0
    assert (from_python.duplicates, from_python.by_format) == (from_file.stored, from_file.by_format)


def test_what_was_exported_is_ingested_as_dictionaries(memory: Memory, tmp_path: Path) -> None:
    memory.ingest([trajectory("get_order", "refund"), CHAT])
    with Memory.open(tmp_path / "other.hepm", speak="weighed") as other:
        assert other.ingest(exported_runs(memory)).by_format == {"hepm": 2}
        assert exported_runs(other) == exported_runs(memory)


def test_records_of_many_formats_trajectories_and_files_may_be_mixed(memory: Memory, tmp_path: Path) -> None:
    sources: list[Any] = [TAU, trajectory("get_order"), ATIF, write(tmp_path / "run.json", AGENTDOJO), TAU2]
    sources += [{**CHAT, "messages": conversation()}, conversation(9), [TAU, {**TAU, "task_id": 4}]]
    report = memory.ingest(source for source in sources)
    assert report.rejected == []
    assert report.by_format == {"tau": 3, "python": 1, "atif": 1, "agentdojo": 1, "tau2": 1, "chat": 2}


def test_records_that_cannot_be_used_are_rejected_by_their_number(memory: Memory) -> None:
    sources: list[Any] = [CHAT, {"note": "header"}, 5, None, {"messages": [{"role": "bot"}]}, {"messages": [object()]}]
    sources += [[TAU, {"note": "in between"}], Trajectory("own", ())]
    report = memory.ingest(sources)
    assert [rejection.file for rejection in report.rejected] == ["<python>"] * 6
    assert {rejection.record: rejection.reason[:30] for rejection in report.rejected} == {
        2: "no reader knows it: it is JSON",
        3: "it holds a number, not runs",
        4: "it holds null, not runs",
        5: 'a message has the role "bot", ',
        6: "it cannot be written as JSON: ",
        "7, record 2": "'traj' is null, not a list",
    }
    assert report.stored == 3


# Tools

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = Tool("weather", "Tells it.", SCHEMA)


class McpTool(BaseModel):
    """As the MCP SDK has it."""

    name: str
    title: str | None = None
    description: str | None = None
    inputSchema: dict[str, Any]
    outputSchema: dict[str, Any] | None = None


@pytest.mark.parametrize(
    "tool",
    [
        WEATHER,
        {"type": "function", "function": {"name": "weather", "description": "Tells it.", "parameters": SCHEMA}},
        FunctionTool(type="function", name="weather", description="Tells it.", parameters=SCHEMA, strict=True),
        McpTool(name="weather", description="Tells it.", inputSchema=SCHEMA),
    ],
)
def test_tools_are_described_in_any_usual_form(memory: Memory, tool: Any) -> None:
    memory.ingest(from_messages([answered(("weather", {}))], success=True), tools=[tool, "another"])
    rows = {row.name: (row.description, json.loads(row.parameters)) for row in memory.tools.list()}
    assert rows == {"weather": ("Tells it.", SCHEMA)}
    assert [found.tool for found in memory.suggest(tools=[tool])] == ["weather"]
    assert not memory.suggest(tools=["another"])
    assert "weather" in memory.prompt(tools=(one for one in [tool])).text


@pytest.mark.parametrize(
    ("tools", "reason"),
    [
        ("a,b", r"tools is the text 'a,b': give a list of tools, such as \['a', 'b'\]"),
        ({"name": "a"}, "give a list of tools"),
        (McpTool(name="a", inputSchema={}), "give a list of tools"),
        ([3], "tools holds 3, which is neither a name nor a tool of OpenAI's or MCP's"),
        ([{"name": "a", "parameters": [1]}], "'parameters' is a list, not an object"),
        ([{"name": "a", "parameters": {"type": object()}}], "cannot be written as JSON"),
    ],
)
def test_what_are_no_tools_is_an_input_error(memory: Memory, tools: Any, reason: str) -> None:
    asked: list[Any] = [
        lambda: memory.suggest(tools=tools),
        lambda: memory.prompt(state="It may rain.", tools=tools),
        lambda: memory.ingest(from_messages(conversation(), success=True), tools=tools),
    ]
    for ask in asked:
        with pytest.raises(InputError, match=reason):
            ask()
    assert memory.namespaces() == []


@pytest.mark.parametrize("form", [dict, SimpleNamespace])
def test_a_tool_that_holds_a_function_is_read_by_what_describes_it(form: Callable[..., object]) -> None:
    tool = form(name="get_order", description="Tells it.", input_schema={"type": "object"}, handler=print)
    assert read_tools([tool]) == (Tool("get_order", "Tells it.", {"type": "object"}),)
