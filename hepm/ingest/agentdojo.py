"""AgentDojo: one JSON object a run, as its benchmark writes under runs/.

https://github.com/ethz-spylab/agentdojo
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from hepm.ingest.digest import identified
from hepm.ingest.document import Document, Reader
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
from hepm.ingest.turns import TurnBuilder, chat_turns
from hepm.types import Outcome, Trajectory


def _recognises(document: Document) -> bool:
    keys = document.keys
    return "suite_name" in keys and "messages" in keys and ("user_task_id" in keys or "pipeline_name" in keys)


def _read(document: Document, options: ReadOptions) -> Iterator[Item]:
    """A run has no id, so the content is always hashed."""
    del options

    def build(value: Any) -> Trajectory:
        record = as_object(value, "the record")
        user_task = text_at(record, "user_task_id")
        injection = text_at(record, "injection_task_id")
        tags = {"attack": text_at(record, "attack_type"), "injection": injection if user_task else ""}
        return identified(
            "",
            chat_turns(as_list(record.get("messages"), "'messages'"), _add_result),
            _outcome(record),
            environment="agentdojo-" + text_at(record, "suite_name"),
            # The attackers' goals are also run as tasks of their own, without a user task.
            task=user_task or injection,
            model=text_at(record, "pipeline_name"),
            ended_at=unix_time(record.get("evaluation_timestamp")),
            tags={key: value for key, value in tags.items() if value},
            source=document.name,
        )

    yield from document.each(build)


def _outcome(record: Object) -> Outcome:
    """`utility` is the label: whether the user's task was solved, regardless of the attack."""
    utility = record.get("utility")
    # So the benchmark reports that a model's provider failed; a context too long for the model is a failure.
    if utility is None or "internal server error" in text_at(record, "error"):
        return Outcome()
    if type(utility) is not bool:
        raise RecordError(f"'utility' is {kind_of(utility)}, not a boolean")
    return Outcome(float(utility), utility)


def _add_result(builder: TurnBuilder, message: Object) -> None:
    error = message.get("error")
    text = plain_text(message.get("content")) or (plain_text(error) if error else "")
    builder.add_result(message.get("tool_call_id"), text, bool(error) if "error" in message else None)


READER: Final = Reader("agentdojo", _recognises, _read)
