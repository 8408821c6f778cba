"""tau2-bench: one object with the runs under "simulations", or a bare list of them, or one run a file.

https://github.com/sierra-research/tau2-bench
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from hepm.ingest.digest import identified
from hepm.ingest.document import Document
from hepm.ingest.records import (
    SOLVED,
    Item,
    Object,
    ReadOptions,
    RecordError,
    as_list,
    as_object,
    is_object,
    list_at,
    number_at,
    object_at,
    plain_text,
    text_at,
    unix_time,
)
from hepm.ingest.turns import ROLES, OpenCall, TurnBuilder
from hepm.types import Outcome, Trajectory, Turn

NAME = "tau2"

_CRASHES: Final = frozenset({"infrastructure_error", "unexpected_error", "user_error"})
"""Ends that are nobody's merit and no agent's fault; "agent_error" and "too_many_errors" are the agent's own."""

_DOMAINS: Final = ("airline", "retail", "telecom", "banking_knowledge", "mock")
_NOISE = re.compile(r"\d+(trials?|tasks)|default|no-user|base", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _About:
    """What a result file tells of all its runs."""

    environment: str
    model: str
    file_model: str
    tags: dict[str, str]


def recognises(document: Document) -> bool:
    """Whether it is a result file, a list of simulations, or one simulation."""
    keys = document.keys
    if "simulations" in keys or ("info" in keys and "tasks" in keys):
        return not document.is_list
    return "messages" in keys and "task_id" in keys and ("termination_reason" in keys or "reward_info" in keys)


def read(document: Document, options: ReadOptions) -> Iterator[Item]:
    """The runs of one result file, user-side calls on turns of the user."""
    info: Object = {}
    if not document.is_list and "messages" in document.keys:
        info = _info_beside(document)
    try:
        about = _about(info, document)
    except RecordError:  # the header beside this file is told of with that file
        about = _about({}, document)

    def build(value: Any) -> Trajectory:
        return _trajectory(as_object(value, "the simulation"), about, document, options)

    seen = False
    for path, number, value in document.walk(("simulations",), ()):
        if isinstance(value, RecordError):
            yield document.rejected(number, str(value))
        elif path == ("info",) and is_object(value):
            try:
                about = _about(value, document)
            except RecordError as error:
                yield document.rejected("info", str(error))
        elif path == ("simulations",) or (path == () and number):
            seen = True
            yield document.built(number, value, build)
        elif "messages" in document.keys and not seen:
            seen = True
            for record, single in document.records():
                yield document.built(record, single, build)


def _info_beside(document: Document) -> Object:
    """A result folder keeps one file a run under simulations/ and the rest in results.json above."""
    content = document.source.sibling("../results.json")
    if content is None:
        return {}
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    info = value.get("info") if is_object(value) else None
    return info if is_object(info) else {}


def _about(info: Object, document: Document) -> _About:
    name = document.file_name.lower()
    agent = object_at(info, "agent_info")
    implementation = text_at(agent, "implementation")
    environment = text_at(object_at(info, "environment_info"), "domain_name")
    environment = environment or next((domain for domain in _DOMAINS if domain in name), "")
    # Without a user the agent also holds the user's tools: another environment, though the domain's name is the same.
    if environment and ("solo" in implementation or "_no-user_" in name):
        environment += "-solo"
    model = text_at(agent, "llm")
    return _About(
        environment, model, _model_in_name(document.file_name), {"agent": implementation} if implementation else {}
    )


def _model_in_name(file_name: str) -> str:
    """The file's name without what is no model in it: domain, number of trials, user."""
    parts = file_name.rsplit(".json", 1)[0].split("_")
    return "_".join(part for part in parts if part.lower() not in _DOMAINS and not _NOISE.fullmatch(part))


def _trajectory(record: Object, about: _About, document: Document, options: ReadOptions) -> Trajectory:
    messages = list_at(record, "messages")
    if not messages:
        reason = text_at(record, "termination_reason") or "unknown"
        raise RecordError(f"the run holds no messages (termination reason: {reason})")
    trial = text_at(record, "trial")
    model = about.model or _recorded_model(messages)
    return identified(
        text_at(record, "id") if options.ids == "own" else "",
        _turns(messages),
        _outcome(record),
        environment=about.environment,
        task=text_at(record, "task_id"),
        model=model,
        file_model="" if model else about.file_model,
        ended_at=unix_time(record.get("end_time") or record.get("timestamp")),
        tags={**about.tags, "trial": trial} if trial else about.tags,
        source=document.name,
    )


def _recorded_model(messages: list[Any]) -> str:
    """The model that the provider's raw answer names, where a file has no header."""
    for message in messages:
        if is_object(message) and message.get("role") == "assistant":
            raw = message.get("raw_data")
            if is_object(raw) and type(model := raw.get("model")) is str:
                return model
    return ""


def _outcome(record: Object) -> Outcome:
    """Success, failure, or unknown for a run that broke down for reasons outside of it."""
    info = object_at(record, "reward_info")
    if not info or text_at(record, "termination_reason") in _CRASHES:
        return Outcome()
    reward = number_at(info, "reward")
    return Outcome(reward, None if reward is None else reward >= SOLVED)


def _turns(messages: list[Any]) -> tuple[Turn, ...]:
    builder = TurnBuilder()
    for message in messages:
        _add_message(builder, as_object(message, "a message"))
    return builder.build()


def _add_message(builder: TurnBuilder, message: Object) -> None:
    role = message.get("role")
    if role == "tool":
        _add_result(builder, message)
        for inner in list_at(message, "tool_messages"):  # several results in one message
            _add_result(builder, as_object(inner, "a tool message"))
        return
    text = message.get("content")
    if type(text) is not str:
        text = plain_text(text)
    known = ROLES.get(role) if type(role) is str else None
    if known is None:
        raise RecordError(f"a message has the unknown role {str(role)[:40]!r}")
    calls = message.get("tool_calls")
    builder.add(known, text, [_call(call) for call in as_list(calls, "'tool_calls'")] if calls else None)


def _add_result(builder: TurnBuilder, message: Object) -> None:
    if "content" not in message and "tool_messages" in message:
        return
    error = message.get("error")
    builder.add_result(message.get("id"), plain_text(message.get("content")), error if type(error) is bool else None)


def _call(call: Any) -> OpenCall:
    record = as_object(call, "a tool call")
    return OpenCall(record.get("id"), record.get("name"), record.get("arguments"))
