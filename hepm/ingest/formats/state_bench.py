"""STATE-Bench: training runs of its learning track, and runs that its `run_batch` wrote and scored.

Each file is one run: {"conversation": [{"role", "content", "tool_calls": [{"name", "arguments", "result"}]}]}.
https://github.com/microsoft/STATE-Bench
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import PurePosixPath
from typing import Final

from hepm.ingest.fields import (
    Objects,
    as_list,
    as_object,
    as_text,
    is_list,
    number_at,
    objects_at,
    plain_text,
    text_at,
    value_at,
)
from hepm.ingest.formats.document import Document, record_reader
from hepm.ingest.formats.turns import plain_turns
from hepm.ingest.records import filled, graded
from hepm.types import Object, Trajectory

_ROLES: Final = ("system", "user", "assistant")


def _recognises(document: Document) -> bool:
    messages = value_at(document.first, "conversation")
    # Other formats have a "conversation", too: each message must have this form, and calls with their results.
    if not is_list(messages) or not all(value_at(message, "role") in _ROLES for message in messages):
        return False
    calls = chain.from_iterable(filter(is_list, [value_at(message, "tool_calls") for message in messages]))
    return "task_id" in document.keys or any(value_at(call, "result") is not None for call in calls)


def _run(record: Object, document: Document) -> Trajectory:
    """One run. Only scored ones have a task's id and an outcome; of the others the file's name is the task."""
    conversation = [as_object(value, "a message") for value in as_list(record.get("conversation"), "'conversation'")]
    path = document.path
    folder = path.parent.name  # run1/, run2/: a task is tried several times
    names = [folder.name for folder in path.parents]
    domains = (name for name in names if name in ("travel", "customer_support", "shopping_assistant"))
    # The system prompt names the customer of runs without a user_id.
    prompts = [plain_text(message.get("content")) for message in conversation if message.get("role") == "system"]
    customers = re.findall(r"currently helping customer (\w+)", "\n".join(prompts))
    return document.run(
        "",
        plain_turns(list(_messages(conversation))),
        graded(number_at(record, "task_completion_pass")),
        # Files lie in DOMAIN/, or in DOMAIN/runN/.
        environment=next((f"state-bench-{domain}" for domain in domains), ""),
        task=text_at(record, "task_id") or PurePosixPath(document.file_name).stem,
        model=text_at(record, "agent_model.model_name"),
        user=text_at(record, "user_id") or "".join(customers[:1]),
        tags=filled(trial=folder if folder.startswith("run") else ""),
    )


def _messages(conversation: Objects) -> Iterator[Object]:
    """Each call as a message of its own, with its result behind it, and then the text.

    The benchmark writes all calls up to a reply into one message, in their order, and not which were issued together.
    """
    for message in conversation:
        for call in objects_at(message, "tool_calls", "a call"):
            # This tool asks a memory: what it returned is no work of the agent, and is not learned again.
            is_learning = call.get("name") == "retrieve_learnings"
            if not is_learning and message.get("role") == "assistant":
                result = call.get("result")
                # {"error": "…"} is what a failed call returned.
                failed = bool(value_at(result, "error"))
                yield {"role": "assistant", "tool_calls": [call]}
                yield {"role": "tool", "content": as_text(result), "is_error": failed}
        text = plain_text(message.get("content"))
        if text or message.get("role") not in _ROLES:
            yield {"role": message.get("role"), "content": text}


READER: Final = record_reader("state-bench", _recognises, _run)
