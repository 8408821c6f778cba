"""Successful runs of a memory as training data: the baseline of every training with rewards, and its cold start."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, Final, TypeAlias

from hepm.agents.tagged import read_action, spans_of, tag_instructions
from hepm.ingest.redact import Redactor
from hepm.ingest.transitions import own_tool, tool_names
from hepm.lab.environments import schema_of
from hepm.lab.rl.dialect import Dialect, ModelReply
from hepm.lab.rl.spans import TokenSpan, row_of
from hepm.memory import Memory
from hepm.memory.messages import as_messages
from hepm.types import DEFAULT_NAMESPACE, Object, Tool, ToolName, Trajectory, Turn

Example: TypeAlias = Object
"""{"messages": [...], "tools": [...]}, as TRL's `SFTTrainer` takes it: the assistant's messages count in the loss."""


def sft_examples(memory: Memory, *, namespace: str = DEFAULT_NAMESPACE) -> Iterator[Example]:
    """The successful runs as chat examples: of each task the shortest run, equal conversations once; lazy.

    Secrets are removed again. Summaries are left out, and what memory wrote. Tools are those that successful runs of
    the environment called.
    """
    called: defaultdict[str, set[ToolName]] = defaultdict(set)
    for run in _successes(memory, namespace):
        for turn in run.turns:
            called[run.environment].update(tool_names(turn))
    described = _described_tools(memory, namespace)
    redactor = Redactor()
    seen: set[int] = set()  # hashes and no texts: conversations may be long, and there may be many
    for run in _shortest(memory, namespace):
        tools = tuple(described.get(name) or Tool(name) for name in sorted(called[run.environment]))
        example = example_of(redactor(replace(run, tools=tools)))
        key = hash(json.dumps(example["messages"], sort_keys=True))
        if key not in seen:
            seen.add(key)
            yield example


def _shortest(memory: Memory, namespace: str, *, tagged: bool = False) -> Iterator[Trajectory]:
    """Of each task the shortest success, or that of an agent in tags; runs without a task all count."""
    # Two passes, as runs are read one by one: the first finds what to keep of each task, the second gives it.
    shortest: dict[tuple[str, str], tuple[int, str]] = {}
    for run in _successes(memory, namespace):
        if tagged and not any(read_action(turn.text).name for turn in run.turns):
            continue
        key, length = (run.environment, run.task or f"run {run.id}"), (run.steps, run.id)
        shortest[key] = min(shortest.get(key, length), length)
    kept = {id for _, id in shortest.values()}
    for run in _successes(memory, namespace):
        if run.id in kept:
            yield run


def _described_tools(memory: Memory, namespace: str) -> dict[ToolName, Tool]:
    rows = memory.tools.list(namespace=namespace)
    return {row.name: Tool(row.name, row.description, json.loads(row.parameters)) for row in rows}


COLD_START: Final[Mapping[str, Any]] = {
    "num_train_epochs": 3,
    "learning_rate": 1e-4,
    "warmup_steps": 0.1,  # a share, below 1
    "per_device_train_batch_size": 16,
    "assistant_only_loss": True,
}
"""How EvolveR trains on its cold start data (A.2), as arguments of TRL's `SFTConfig`."""


def cold_start(memory: Memory, *, namespace: str = DEFAULT_NAMESPACE) -> Iterator[Example]:
    """The successful runs of agents that act by tags as chat examples (EvolveR 4, A.4.1); lazy.

    The agent's texts are the assistant's messages; experience and information are the user's, and outside of the loss.
    The system prompt is what such agents read about the tags; that of the task is not stored whole. Of each task there
    is the shortest run. The paper has a large model write some 700 such runs from known answers;
    here they are runs that were made.
    """
    described = _described_tools(memory, namespace)
    redactor = Redactor()
    for run in _shortest(memory, namespace, tagged=True):
        called = {call.name for call in run.calls()}.intersection(described)
        specs = [schema_of(described[name]) for name in sorted(called)]
        messages = [{"role": "system", "content": tag_instructions(specs)}]
        turns = tuple(turn for turn in redactor(run).turns if turn.role != "system")
        for span in spans_of(replace(run, turns=turns)):
            messages.append({"role": "assistant" if span.trained else "user", "content": span.text})
        yield {"messages": messages}


def _successes(memory: Memory, namespace: str) -> Iterator[Trajectory]:
    """The successful runs that may teach, in the order of the store."""
    # An older store counted a reward of 1 alone as a success, and has no mark of its own: its runs are graded anew.
    success_from = memory.header.success_from
    for run in memory.runs(namespace=namespace):
        # A run of an agent that did nothing shows nothing.
        if run.trusted and run.steps and run.graded(success_from).outcome.success:
            yield run


def example_of(run: Trajectory) -> Example:
    """A run as a chat example, without calls of hepm's own tools and turns that have nothing else."""
    turns: list[Turn] = []
    for turn in run.turns:
        calls = tuple(call for call in turn.ran if not own_tool(call.name, call.arguments))
        if not turn.hidden and (calls or not turn.calls):
            turns.append(replace(turn, calls=calls))
    return {"messages": plain_messages(turns), "tools": list(map(schema_of, run.tools))}


def plain_messages(turns: Iterable[Turn]) -> list[Object]:
    """Turns as chat messages without fields of ours, which endpoints and templates refuse."""
    keys = ("role", "content", "tool_calls", "tool_call_id")
    return [{key: message[key] for key in keys if key in message} for message in as_messages(turns)]


def example_spans(example: Mapping[str, Any], dialect: Dialect) -> list[TokenSpan]:
    """An example as tokens, in the form of a rollout: `row_of` gives the tokens and their loss mask."""
    messages: list[Any] = example["messages"]
    first = [message["role"] for message in messages].index("assistant")
    spans = [TokenSpan("user", _joined(dialect.opening(messages[:first], example.get("tools", ()))))]
    read: list[Any] = []  # since the last message of the model: a template writes neighbouring results as one block
    for message in messages[first:]:
        if message["role"] != "assistant":
            read.append(message)
            continue
        if read:
            spans.append(TokenSpan("tool", _joined(dialect.following(read))))
            read = []
        calls: list[tuple[str, str]] = []
        for call in message.get("tool_calls", ()):
            function = call["function"]
            calls.append((function["name"], json.dumps(function["arguments"])))
        spans.append(TokenSpan("model", tuple(dialect.write(ModelReply(message["content"], calls)))))
    return spans


def masked_row(example: Mapping[str, Any], dialect: Dialect) -> dict[str, list[int]]:
    """An example as a row of TRL's `SFTTrainer`, where `assistant_only_loss` is off: tokens, and which are trained."""
    row = row_of(example_spans(example, dialect))
    return {"input_ids": [*row.prompt, *row.completion], "assistant_masks": [0] * len(row.prompt) + [*row.mask]}


def _joined(framed: Iterable[Iterable[int]]) -> tuple[int, ...]:
    return tuple(chain.from_iterable(framed))
