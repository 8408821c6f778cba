"""AgentDojo: one JSON object a run, as its benchmark writes under runs/.

https://github.com/ethz-spylab/agentdojo
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hepm.ingest.digest import identified
from hepm.ingest.document import Document
from hepm.ingest.records import (
    Item,
    Object,
    ReadOptions,
    RecordError,
    as_list,
    as_object,
    kind_of,
    plain_text,
    text_at,
    unix_time,
)
from hepm.ingest.turns import ROLES, OpenCall, TurnBuilder
from hepm.types import Outcome, Trajectory, Turn

NAME = "agentdojo"

_NOT_THE_AGENTS_FAULT = "internal server error"
"""How the benchmark explains that a model's provider failed; a context too long for the model is a failure."""


def recognises(document: Document) -> bool:
    """Whether the record has the keys of an AgentDojo run."""
    keys = document.keys
    return "suite_name" in keys and "messages" in keys and ("user_task_id" in keys or "pipeline_name" in keys)


def read(document: Document, options: ReadOptions) -> Iterator[Item]:
    """The run of one file. It has no id, so the content is always hashed."""
    del options

    def build(value: Any) -> Trajectory:
        return _trajectory(as_object(value, "the record"), document)

    yield from document.each(build)


def _trajectory(record: Object, document: Document) -> Trajectory:
    user_task = text_at(record, "user_task_id")
    injection = text_at(record, "injection_task_id")
    tags: dict[str, str] = {}
    attack = text_at(record, "attack_type")
    if attack:
        tags["attack"] = attack
    if user_task and injection:
        tags["injection"] = injection
    return identified(
        "",
        _turns(as_list(record.get("messages"), "'messages'")),
        _outcome(record),
        environment="agentdojo-" + text_at(record, "suite_name"),
        # The attackers' goals are also run as tasks of their own, without a user task.
        task=user_task or injection,
        model=text_at(record, "pipeline_name"),
        ended_at=unix_time(record.get("evaluation_timestamp")),
        tags=tags,
        source=document.name,
    )


def _outcome(record: Object) -> Outcome:
    """`utility` is the label: whether the user's task was solved, whatever the attacker got."""
    utility = record.get("utility")
    if utility is None or _NOT_THE_AGENTS_FAULT in text_at(record, "error"):
        return Outcome()
    if type(utility) is not bool:
        raise RecordError(f"'utility' is {kind_of(utility)}, not a boolean")
    return Outcome(float(utility), utility)


def _turns(messages: list[Any]) -> tuple[Turn, ...]:
    builder = TurnBuilder()
    for value in messages:
        message = as_object(value, "a message")
        role = message.get("role")
        text = message.get("content")
        if type(text) is not str:
            text = plain_text(text)
        if role == "tool":
            error = message.get("error")
            failed = bool(error) if "error" in message else None
            builder.add_result(message.get("tool_call_id"), text or (plain_text(error) if error else ""), failed)
            continue
        known = ROLES.get(role) if type(role) is str else None
        if known is None:
            raise RecordError(f"a message has the unknown role {str(role)[:40]!r}")
        calls = message.get("tool_calls") if known == "assistant" else None
        builder.add(known, text, [_call(call) for call in as_list(calls, "'tool_calls'")] if calls else None)
    return builder.build()


def _call(call: Any) -> OpenCall:
    record = as_object(call, "a tool call")
    return OpenCall(record.get("id"), record.get("function"), record.get("args"))
