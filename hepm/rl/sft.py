"""Successful runs of a memory as training data: the baseline of every training with rewards, and its cold start."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from hepm.agents.tagged import read_action, spans_of, tag_instructions
from hepm.agents.wire import appended, tagged
from hepm.ingest.redact import Redactor
from hepm.ingest.transitions import own_tool, tool_names
from hepm.llm.dialect import Dialect, ModelReply
from hepm.memory import Memory
from hepm.memory.session import as_messages
from hepm.rl.spans import TokenSpan
from hepm.text import tool_in_prompt
from hepm.types import DEFAULT_NAMESPACE, HINT, SUCCESS_FROM, Tool, ToolName, Trajectory, Turn

Example: TypeAlias = dict[str, Any]
"""{"messages": [...], "tools": [...]}, as TRL's `SFTTrainer` takes it: the assistant's messages count in the loss."""


_KEYS: Final = ("role", "content", "tool_calls", "tool_call_id")


def sft_examples(memory: Memory, *, hints: bool = False, namespace: str = DEFAULT_NAMESPACE) -> Iterator[Example]:
    """The successful runs as chat examples: of each task the shortest run, equal conversations once; lazy.

    Secrets are removed again. Summaries are left out, and what memory wrote. Tools are those that successful runs of
    the environment called.

    Args:
        hints: Put the tools that hints named back where the agent read them.
    """
    best: dict[tuple[str, str], tuple[int, str]] = {}
    called: dict[str, set[ToolName]] = {}
    for run in _successes(memory, namespace):
        called.setdefault(run.environment, set()).update(tool for turn in run.turns for tool in tool_names(turn))
        known = best.get((run.environment, run.task))
        if run.task and (known is None or (run.steps, run.id) < known):
            best[run.environment, run.task] = run.steps, run.id
    described = {
        row.name: Tool(row.name, row.description, json.loads(row.parameters))
        for row in memory.tools(namespace=namespace)
    }
    seen, redactor = set[int](), Redactor()
    for run in _successes(memory, namespace):
        if run.task and best[run.environment, run.task][1] != run.id:
            continue
        tools = tuple(described.get(name) or Tool(name) for name in sorted(called[run.environment]))
        example = example_of(redactor(replace(run, tools=tools)), hints=hints)
        key = hash(json.dumps(example["messages"], sort_keys=True))
        if key not in seen:
            seen.add(key)
            yield example


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
    The system prompt is what such agents are told of the tags; that of the task is not stored whole. Of each task there
    is the shortest run. The paper has a large model write some 700 such runs from known answers;
    here they are runs that were made.
    """
    runs = [run for run in _successes(memory, namespace) if any(read_action(turn.text)[1] for turn in run.turns)]
    best: dict[tuple[str, str], Trajectory] = {}
    for run in runs:
        key = run.environment, run.task or run.id
        known = best.get(key)
        if known is None or (run.steps, run.id) < (known.steps, known.id):
            best[key] = run
    described = {row.name: row for row in memory.tools(namespace=namespace)}
    redactor = Redactor()
    for run in best.values():
        names = sorted({call.name for call in run.calls()})
        tools = [
            Tool(row.name, row.description, json.loads(row.parameters))
            for name in names
            if (row := described.get(name))
        ]
        specs = [{"type": "function", "function": _function_of(tool)} for tool in tools]
        messages = [{"role": "system", "content": tag_instructions(specs)}]
        turns = tuple(turn for turn in redactor(run).turns if turn.role != "system")
        for span in spans_of(replace(run, turns=turns)):
            messages.append({"role": "assistant" if span.trained else "user", "content": span.text})
        yield {"messages": messages}


def _successes(memory: Memory, namespace: str) -> Iterator[Trajectory]:
    success_from = memory.header.success_from if memory.header.rewards_read else SUCCESS_FROM
    for run in memory.runs(namespace=namespace):
        if run.trusted and run.graded(success_from).outcome.success and any(map(_is_shown, run.turns)):
            yield run


def _is_shown(turn: Turn) -> bool:
    return turn.is_step and (bool(turn.text) or any(not own_tool(call.name, call.arguments) for call in turn.calls))


def example_of(run: Trajectory, *, hints: bool = False) -> Example:
    """A run as a chat example."""
    turns: list[Turn] = []
    for turn in _without_own(run.turns):
        if hints and turn.hinted and turns:
            line = tagged(HINT + ", ".join(map(tool_in_prompt, turn.hinted)))
            turns[-1] = _ending_in(turns[-1], line)
        turns.append(turn)
    messages = [{key: value for key, value in message.items() if key in _KEYS} for message in as_messages(turns)]
    return {"messages": messages, "tools": [{"type": "function", "function": _function_of(tool)} for tool in run.tools]}


def _function_of(tool: Tool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


def _ending_in(turn: Turn, line: str) -> Turn:
    """A turn whose last message ends in a line of memory."""
    if not turn.calls:
        return replace(turn, text=appended(turn.text, line))
    last = replace(turn.calls[-1], result=appended(turn.calls[-1].result, line))
    return replace(turn, calls=(*turn.calls[:-1], last))


def _without_own(turns: Iterable[Turn]) -> Iterator[Turn]:
    """The turns of the conversation, without calls of hepm's own tools and turns that have nothing else."""
    for turn in turns:
        calls = tuple(call for call in turn.calls if not own_tool(call.name, call.arguments))
        if not turn.hidden and (calls or not turn.calls):
            yield replace(turn, calls=calls)


def example_spans(example: Mapping[str, Any], dialect: Dialect) -> list[TokenSpan]:
    """An example as tokens, in the form of a rollout: `row_of` gives the tokens and their loss mask."""
    messages: list[Any] = example["messages"]
    first = next(at for at, message in enumerate(messages) if message["role"] == "assistant")
    spans = [TokenSpan("user", _joined(dialect.opening(messages[:first], example["tools"])))]
    heard: list[Any] = []
    for message in messages[first:]:
        if message["role"] != "assistant":
            heard.append(message)
            continue
        if heard:
            spans.append(TokenSpan("tool", _joined(dialect.following(heard))))
            heard = []
        functions = [call["function"] for call in message.get("tool_calls", ())]
        calls = [(one["name"], json.dumps(one["arguments"])) for one in functions]
        spans.append(TokenSpan("model", tuple(dialect.write(ModelReply(message["content"], calls)))))
    return spans


def _joined(framed: Iterable[Iterable[int]]) -> tuple[int, ...]:
    return tuple(token for part in framed for token in part)
