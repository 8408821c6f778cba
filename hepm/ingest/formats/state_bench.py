"""STATE-Bench: training runs of its learning track, and runs that its `run_batch` wrote and scored.

Each file is one run: {"conversation": [{"role", "content", "tool_calls": [{"name", "arguments", "result"}]}]}.
https://github.com/microsoft/STATE-Bench
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any, Final

from hepm.ingest.fields import (
    Objects,
    as_list,
    as_object,
    as_text,
    is_list,
    is_object,
    number_at,
    objects_at,
    plain_text,
    text_at,
)
from hepm.ingest.formats.document import Document, record_reader
from hepm.ingest.formats.turns import ROLES, OpenCall, TurnBuilder
from hepm.ingest.records import RecordError, filled, graded
from hepm.types import Object, Trajectory

DOMAINS: Final = ("travel", "customer_support", "shopping_assistant")
LEARNINGS: Final = "retrieve_learnings"
"""The benchmark's tool that asks a memory. What it returned is no work of the agent, and is not learned again."""

_ROLES: Final = ("system", "user", "assistant")
_CUSTOMER: Final = re.compile(r"currently helping customer (\w+)")


def _recognises(document: Document) -> bool:
    if "conversation" not in document.keys or not is_object(document.first):
        return False
    # Other formats have a "conversation", too: each message must have this form.
    messages = document.first.get("conversation")
    if not is_list(messages) or not all(map(_is_message, messages)):
        return False
    return "task_id" in document.keys or any(_calls(message) for message in messages)


def _is_message(value: Any) -> bool:
    return is_object(value) and value.get("role") in _ROLES and "content" in value


def _calls(message: Object) -> Objects:
    """The calls of a message; none if any is in another form, as OpenAI's, which hold no results."""
    calls = message.get("tool_calls")
    if not is_list(calls) or not all(is_object(call) and "result" in call for call in calls):
        return []
    return calls


def _run(record: Object, document: Document) -> Trajectory:
    """One run. Only scored ones have a task's id and an outcome; of the others the file's name is the task."""
    messages = as_list(record.get("conversation"), "'conversation'")
    builder = TurnBuilder()
    for value in messages:
        _add(builder, as_object(value, "a message"))
    path = document.path
    model = text_at(record, "agent_model.model_name")
    trial = ""
    if path.parent.name.startswith("run"):  # run1/, run2/: a task is tried several times
        trial = path.parent.name
    return document.run(
        "",
        builder.build(),
        graded(number_at(record, "task_completion_pass")),
        environment=_environment(path),
        task=text_at(record, "task_id") or PurePosixPath(document.file_name).stem,
        model=model,
        user=text_at(record, "user_id") or _customer(messages),
        tags=filled(trial=trial),
    )


def _add(builder: TurnBuilder, message: Object) -> None:
    """Add a message: each of its calls as a turn, then its text.

    The benchmark writes all calls up to a reply into one message, in their order, and not which were issued together.
    """
    role = message.get("role")
    # Roles of results are missing here: those are inside the calls.
    if role not in _ROLES:
        raise RecordError(f"a message has the role {role!r}")
    if role == "assistant":
        for call in objects_at(message, "tool_calls", "a call"):
            _add_call(builder, call)
    text = plain_text(message.get("content"))
    if text:
        builder.add(ROLES[role], text, [])


def _add_call(builder: TurnBuilder, call: Object) -> None:
    if call.get("name") == LEARNINGS:
        return
    # Without ids: the result follows at once.
    builder.add("assistant", "", [OpenCall(None, call.get("name"), call.get("arguments"))])
    result = call.get("result")
    # {"error": "…"} is what a failed call returned.
    failed = is_object(result) and bool(result.get("error"))
    builder.add_result(None, as_text(result), failed)


def _environment(path: PurePosixPath) -> str:
    """Files lie in DOMAIN/, or in DOMAIN/runN/; "" if no folder above names a domain."""
    for folder in path.parents:
        if folder.name in DOMAINS:
            return f"state-bench-{folder.name}"
    return ""


def _customer(messages: list[Any]) -> str:
    """The customer of the system prompt, for runs without a user_id."""
    for message in messages:
        if message.get("role") == "system":
            match = _CUSTOMER.search(plain_text(message.get("content")))
            if match:
                return match[1]
    return ""


READER: Final = record_reader("state-bench", _recognises, _run)
