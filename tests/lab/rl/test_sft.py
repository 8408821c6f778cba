"""Successful runs as training data, and `hepm export --sft`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from hepm import Memory
from hepm.ingest.prepare import IngestOptions
from hepm.lab.rl.sft import example_spans, sft_examples
from hepm.lab.rl.spans import row_of
from hepm.types import SUMMARY_TOOL, Outcome, Tool, ToolCall, Trajectory, Turn
from tests.faults.command import quick
from tests.lab.rl.playing import WORDS, desk

ASK = Turn("user", "my lid is cracked")
SECRET = "sk-proj-" + "a1B2c3D4e5F6g7H8i9J0" * 2


def called(*names: str, hinted: tuple[str, ...] = (), result: str = "done") -> Turn:
    return Turn("assistant", "", tuple(ToolCall(name, {"at": 1}, result) for name in names), hinted=hinted)


def run(id: str, *turns: Turn, task: str = "", reward: float = 1.0) -> Trajectory:
    return Trajectory(id, (ASK, *turns), Outcome(reward), environment="desk", task=task)


def examples(memory: Memory, *runs: Trajectory, keep_secrets: bool = False) -> list[Any]:
    memory.ingest(runs, options=IngestOptions(redactor=None) if keep_secrets else None)
    return list(sft_examples(memory))


def test_of_each_task_the_shortest_success_becomes_an_example(memory: Memory):
    found = examples(
        memory,
        run("long", called("look"), called("fix"), called("close"), task="a"),
        run("short", called("fix"), called("close"), task="a"),
        run("failed", called("close"), task="a", reward=0.0),
        run("other", called("look"), task="b"),
    )
    made = [[call["function"]["name"] for m in one["messages"] for call in m.get("tool_calls", ())] for one in found]
    assert made == [["fix", "close"], ["look"]]


def test_equal_conversations_become_one_example_and_runs_without_a_task_one_each(memory: Memory):
    found = examples(memory, run("1", called("fix")), run("2", called("fix")), run("3", called("close")))
    assert len(found) == 2


def test_messages_and_tools_are_those_of_chat_completions(memory: Memory):
    described = Tool("fix", "Repair it", {"type": "object", "properties": {"at": {"type": "integer"}}})
    memory.ingest([], tools=[described])
    (found,) = examples(memory, run("1", called("fix"), Turn("assistant", "it works")))
    call = {"id": "stored_1", "type": "function", "function": {"name": "fix", "arguments": {"at": 1}}}
    assert found["messages"] == [
        {"role": "user", "content": "my lid is cracked"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "stored_1", "content": "done"},
        {"role": "assistant", "content": "it works"},
    ]
    function = {"name": "fix", "description": "Repair it", "parameters": described.parameters}
    assert found["tools"] == [{"type": "function", "function": function}]


def test_summaries_and_hidden_turns_are_left_out(memory: Memory):
    hidden = Turn("assistant", "", (ToolCall("think", {}, "so"),), hidden=True)
    (found,) = examples(memory, run("1", called(SUMMARY_TOOL), hidden, called("fix")))
    assert [m["role"] for m in found["messages"]] == ["user", "assistant", "tool"]


def test_a_secret_that_was_stored_is_in_no_example(memory: Memory):
    found = examples(memory, run("1", called("fix", result=f"the key is {SECRET}")), keep_secrets=True)
    assert SECRET in str(list(memory.runs()))
    assert SECRET not in json.dumps(found)


def test_a_run_that_is_not_trusted_teaches_nothing(memory: Memory):
    attacked = replace(run("1", called("fix")), tags={"attack": "x"})
    memory.ingest([attacked], options=IngestOptions(distrusted=("attack",)))
    assert list(sft_examples(memory)) == []


def test_an_example_as_tokens_has_its_loss_on_the_messages_of_the_agent():
    environment = desk()
    tool, other = environment.desk.tools[:2]
    lid = {"role": "user", "content": "cracked lid"}
    function = {"name": tool, "arguments": {}}
    made = {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", "function": function}]}
    heard = {"role": "tool", "tool_call_id": "c", "name": tool, "content": f"kept {other}"}
    messages = [lid, made, heard, {"role": "assistant", "content": "done"}]
    row = row_of(example_spans({"messages": messages, "tools": []}, WORDS))
    said = [WORDS.words[id] for id, on in zip(row.completion, row.mask, strict=True) if on]
    assert said == [tool, "<end>", "done", "<end>"]
    assert [WORDS.words[id] for id in row.prompt] == ["<user>", "cracked", "lid", "<end>", "<agent>"]


def test_the_command_writes_the_examples_and_says_how_many(memory: Memory, tmp_path: Path):
    memory.ingest([run("1", called("fix", hinted=("fix",)), task="a"), run("2", called("close"), task="b")])
    memory.close()
    store, target = str(tmp_path / "m.hepm"), tmp_path / "examples.jsonl"
    done = quick("export", str(target), "--sft", "chats", "--store", store)
    assert done.out.startswith("2 examples written to ")
    found = [json.loads(line) for line in target.read_text("utf-8").splitlines()]
    assert [sorted(one) for one in found] == [["messages", "tools"]] * 2
