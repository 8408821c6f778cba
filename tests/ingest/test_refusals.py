from __future__ import annotations

from typing import Any

import pytest

from hepm import from_messages
from hepm.ingest.formats.refusals import is_refusal
from hepm.ingest.transitions import transitions

REFUSED = [
    "The user doesn't want to proceed with this tool use. The tool use was rejected.",
    "[Request interrupted by user for tool use]",
    "Claude requested permissions to write to /w/a.py, but you haven't granted it yet.",
    "PreToolUse:Bash hook error: [guard.sh]: not on Fridays",
    "Error: exec command rejected by user",
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
    ]
    state = transitions(run)[-1].state
    assert ("deploy" in state.tools, "user" in state.result, state.failed) == (False, False, False)


def test_a_result_that_is_said_to_be_no_error_is_what_the_tool_returned():
    answer = {"role": "tool", "tool_call_id": "read", "content": REFUSED[0], "is_error": False}
    assert not from_messages([call("read"), answer]).turns[0].refused
