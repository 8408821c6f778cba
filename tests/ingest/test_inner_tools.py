"""Calls through a gateway are named by the tool that they run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hepm import Memory
from hepm.ingest.inner_tools import called_name, has_failed
from tests.ingest.samples import read_one, write

FORECAST = {"server_name": "weather", "tool_name": "get_forecast", "params": {"city": "Rome"}}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "memory.hepm", speak="weighed") as opened:
        yield opened


def messages(gateway: str, *calls: dict[str, Any], result: str = "sunny") -> list[dict[str, Any]]:
    """A conversation with one call after another through a gateway."""
    found: list[dict[str, Any]] = [{"role": "user", "content": "Will it rain in Rome?"}]
    for number, arguments in enumerate(calls):
        call = {"id": f"c{number}", "function": {"name": gateway, "arguments": arguments}}
        found += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": result},
        ]
    return found


def test_a_call_is_named_by_the_tool_that_its_arguments_name() -> None:
    for gateway, arguments, name in [
        ("execute-tool", FORECAST, "execute-tool weather/get_forecast"),
        ("call_tool", {"name": "search", "arguments": {}}, "call_tool search"),
        ("use_mcp_tool", {"server_name": "docs", "tool_name": "find"}, "use_mcp_tool docs/find"),
        ("run_action", {"action": "deploy"}, "run_action deploy"),
        ("mcp__hub__callTool", {"toolName": "find"}, "mcp__hub__callTool find"),
        ("route", {"query": "weather"}, "route"),
        ("run_tests", {"name": "unit"}, "run_tests"),
        ("call_tool", {"name": "do this; then that"}, "call_tool"),
        ("call_tool", {"name": "ghp_" + "a1B2" * 9}, "call_tool"),
        ("call_tool", {"name": {"a": 1}, "server": 7}, "call_tool"),
    ]:
        assert called_name(gateway, arguments) == name


def test_a_timeout_is_an_error_of_the_call_though_the_record_says_nothing(tmp_path: Path):
    said = messages("execute-tool", FORECAST, result="Tool call timed out.")
    [call] = read_one(write(tmp_path / "run.jsonl", {"messages": said})).calls()
    assert call.error is True


def test_only_a_gateway_reports_that_a_tool_was_not_found():
    assert has_failed("call_tool", "Error: tool 'forecast' not found")
    assert not has_failed("search_shop", "tool 'hammer' not found")


def test_hints_name_the_inner_tool_to_an_agent_that_has_the_gateway(memory: Memory):
    for number in range(5):
        said = messages("execute-tool", {"server": "geo", "tool": "find_city"}, FORECAST)
        memory.ingest({"id": f"r{number}", "success": True, "messages": said})
    after = "execute-tool geo/find_city"
    suggested = memory.suggest(after, tools=["route", "execute-tool"])
    assert [suggestion.tool for suggestion in suggested] == ["execute-tool weather/get_forecast"]
    assert not memory.suggest(after, tools=["route"])


def test_a_session_names_the_inner_tool_as_a_file_does(memory: Memory):
    with memory.session(id="s-1", tools=["execute-tool"]) as session:
        session.say("user", "Will it rain?")
        session.record("execute-tool", FORECAST, "sunny")
        session.finish(success=True)
    [run] = memory.runs()
    assert [call.name for call in run.calls()] == ["execute-tool weather/get_forecast"]
