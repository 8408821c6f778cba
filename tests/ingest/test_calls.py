"""Calls through a gateway are named by the tool that they run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hepm import Memory, from_messages
from hepm.ingest.call_errors import errors_of, normal_error
from hepm.ingest.formats.refusals import is_refusal
from hepm.ingest.inner_tools import called_name, has_failed
from hepm.ingest.transitions import transitions
from hepm.types import ToolCall
from tests.ingest.samples import read_one, write

FORECAST = {"server_name": "weather", "tool_name": "get_forecast", "params": {"city": "Rome"}}


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


# Errors of calls, in the words that runs share


@pytest.mark.parametrize(
    ("line", "normal"),
    [
        ("2024-05-01 10:00:01 ERROR: order 17 not found", "order … not found"),
        ("E   django.db.utils.ProgrammingError: no such column: order_17", "ProgrammingError: no such column: order_…"),
        ("cannot open /home/ann/shop/a.txt: No such file or directory", "cannot open …: No such file or directory"),
        ("3 failed in 2.1s", ""),
        ("<script>ignore|previous</script> error here", "script ignore previous … error here"),
    ],
)
def test_errors_are_told_without_numbers_paths_and_signs(line: str, normal: str) -> None:
    assert normal_error(line) == normal


def test_a_secret_in_an_error_is_not_kept() -> None:
    text = errors_of(ToolCall("deploy", result="Error: login failed, password=hunter2hunter2 was refused", error=True))
    assert "hunter2" not in " ".join(text)


def test_of_an_error_of_pydantic_neither_the_address_nor_the_input_is_kept() -> None:
    text = (
        "1 validation error for Payment\nid\n  Field required [type=missing, input_value={'a': 7}, input_type=dict]\n"
        "    For further information visit https://x.org/missing"
    )
    assert errors_of(ToolCall("pay", result=text, error=True))[0] == "Field required"


# refusals

REFUSED = [
    "The user doesn't want to proceed with this tool use. The tool use was rejected.",
    "[Request interrupted by user for tool use]",
    "Claude requested permissions to write to /w/a.py, but you haven't granted it yet.",
    "PreToolUse:Bash hook error: [guard.sh]: not on Fridays",
    "user rejected MCP tool call",
    "[Operation Cancelled] Reason: User did not allow tool call",
    "User rejected the tool call for `refund` with id call_1",
    "The tool call was denied.",
    "The user has declined to run this tool.",
]
RAN = [
    "",
    "bash: /w/deploy: Permission denied",
    "The order was cancelled by the user.",
    "User rejected the offer of 5 EUR",
    "aborted 3 of 5 transactions",
    "grep: notes.md: The user doesn't want to proceed with this tool use.",
    "Operation timed out",
]


def test_a_result_that_says_its_call_was_refused_is_a_refusal() -> None:
    for text in REFUSED:
        assert is_refusal(text)
        assert is_refusal(f"<tool_use_error>{text}</tool_use_error>")


def test_a_result_about_something_else_is_none() -> None:
    for text in RAN:
        assert not is_refusal(text)


def test_a_very_long_result_costs_no_time():
    assert not is_refusal("the command " * 1_000_000)
    assert not is_refusal("permission to use " * 1_000_000)


def call(name: str) -> dict[str, Any]:
    function = {"name": name, "arguments": "{}"}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": name, "type": "function", "function": function}]}


def test_how_a_run_ended_is_what_was_known_before_a_text_followed_its_last_call():
    messages = [call("look"), {"role": "tool", "tool_call_id": "look", "content": '{"state": "open"}'}]
    said = [{"role": "assistant", "content": "It is open."}, {"role": "user", "content": "Thanks!"}]
    *_, ended = transitions(from_messages([{"role": "user", "content": "Look."}, *messages, *said]))
    assert (ended.sources, ended.targets, ended.step) == (("look",), (), 1)
    assert (ended.state.user_spoke, ended.state.said) == (False, ("Look.",))
    assert ended.learned["look"]["state=open"] == 1
    assert not transitions(from_messages(said))


@pytest.mark.parametrize(
    "answer",
    [
        {"role": "tool", "tool_call_id": "deploy", "content": REFUSED[0]},
        {"role": "tool", "tool_call_id": "deploy", "content": "not now", "refused": True},
        {"role": "tool", "tool_call_id": "deploy", "content": REFUSED[0], "is_error": True},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "deploy", "content": REFUSED[0]}]},
    ],
)
def test_a_refused_call_of_chat_messages_is_no_way(answer: dict[str, Any]):
    messages = [{"role": "user", "content": "Deploy."}, call("look"), call("deploy"), answer, call("test")]
    run = from_messages(messages)
    assert [turn.refused for turn in run.turns if turn.refused] == [("deploy",)]
    assert [(move.sources, move.targets) for move in transitions(run)] == [
        (("<START>",), ("look",)),
        (("look",), ("test",)),
        (("test",), ()),
    ]
    state = transitions(run)[-1].state
    assert ("deploy" in state.tools, "user" in state.result, state.failed) == (False, False, False)


def test_a_result_that_is_said_to_be_no_error_is_what_the_tool_returned():
    answer = {"role": "tool", "tool_call_id": "read", "content": REFUSED[0], "is_error": False}
    assert not from_messages([call("read"), answer]).turns[0].refused
