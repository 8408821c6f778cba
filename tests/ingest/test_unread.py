"""What is left out of files, or hidden in their layout, is read or named: nothing goes without a word."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.faults.command import quick
from tests.ingest.samples import read_one, write

CALL = {"id": "c1", "type": "function", "function": {"name": "weigh", "arguments": '{"crate": 7}'}}
RUN = {
    "id": "crate-7",
    "success": True,
    "messages": [
        {"role": "user", "content": "Weigh crate 7."},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "12 kg"},
    ],
}


@pytest.mark.parametrize("key", ["data", "items", "results", "logs"])
def test_a_list_of_runs_in_a_wrapper_is_read(tmp_path: Path, key: str):
    run = read_one(write(tmp_path / "a.json", {"object": "list", key: [RUN], "has_more": False}))
    assert (run.id, [call.name for call in run.calls()]) == ("crate-7", ["weigh"])


@pytest.mark.parametrize("half", [r"\ud83d", r"\udc00"])
def test_half_a_character_in_an_argument_is_replaced_and_rejects_no_run(tmp_path: Path, half: str):
    text = json.dumps(RUN).replace('\\"crate\\": 7', f'\\"crate\\": \\"a{half.replace(chr(92), chr(92) * 2)}b\\"')
    (tmp_path / "a.json").write_text(text, "utf-8")
    [call] = read_one(tmp_path / "a.json").calls()
    assert call.arguments == {"crate": "a?b"}


def test_a_result_of_the_ai_sdk_without_a_value_stops_no_ingest(tmp_path: Path):
    # A tool that returns undefined: JSON.stringify drops the key.
    call = {"type": "tool-call", "toolCallId": "c1", "toolName": "weigh", "input": {"crate": 7}}
    result = {"type": "tool-result", "toolCallId": "c1", "toolName": "weigh", "output": {"type": "json"}}
    messages = [
        {"role": "user", "content": "Weigh crate 7."},
        {"role": "assistant", "content": [call]},
        {"role": "tool", "content": [result]},
    ]
    [read] = read_one(write(tmp_path / "a.json", {"messages": messages})).calls()
    assert (read.name, read.error) == ("weigh", False)


def test_a_file_from_which_nothing_is_stored_is_given_a_reason(tmp_path: Path):
    span = {"traceId": "1" * 32, "spanId": "2" * 16, "name": "GET /crates", "attributes": []}
    write(tmp_path / "a.json", {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})
    answer = quick("ingest", tmp_path / "a.json", "--store", tmp_path / "m.hepm")
    assert "GET /crates" in answer.err
