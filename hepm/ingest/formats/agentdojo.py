"""Runs of AgentDojo: https://github.com/ethz-spylab/agentdojo."""

from __future__ import annotations

from typing import Final

from hepm.ingest import fields
from hepm.ingest.formats.document import Document, record_reader
from hepm.ingest.formats.turns import TurnBuilder, chat_turns
from hepm.ingest.records import ReadOptions, RecordError, filled, graded, identified
from hepm.types import Object, Trajectory


def _recognises(document: Document) -> bool:
    keys = document.keys
    return "suite_name" in keys and "messages" in keys and ("user_task_id" in keys or "pipeline_name" in keys)


def _run(record: Object, document: Document, options: ReadOptions) -> Trajectory:
    """One object a file, under runs/. It has no id. `utility` is whether the user's task was solved."""
    del options
    utility = record.get("utility")
    # So the benchmark reports that a model's provider failed; a context too long for the model is a failure.
    if utility is not None and "internal server error" in fields.text(record, "error"):
        utility = None
    if utility is not None and type(utility) is not bool:
        raise RecordError(f"'utility' is {fields.kind_of(utility)}, not a boolean")
    user_task = fields.text(record, "user_task_id")
    injection = fields.text(record, "injection_task_id")
    return identified(
        "",
        chat_turns(fields.as_list(record.get("messages"), "'messages'"), _add_result),
        graded(None if utility is None else float(utility)),
        environment="agentdojo-" + fields.text(record, "suite_name"),
        # The attackers' goals are also run as tasks of their own, without a user task.
        task=user_task or injection,
        model=fields.text(record, "pipeline_name"),
        ended_at=fields.unix_time(record.get("evaluation_timestamp")),
        tags=filled(attack=fields.text(record, "attack_type"), injection=user_task and injection),
        source=document.name,
    )


def _add_result(builder: TurnBuilder, message: Object) -> None:
    text = fields.plain_text(message.get("content"))
    failed = None  # unknown, where the key is missing; null means that the call went well
    if "error" in message:
        failed = bool(message["error"])
        if failed and not text:
            text = fields.plain_text(message["error"])
    builder.add_result(message.get("tool_call_id"), text, failed)


READER: Final = record_reader("agentdojo", _recognises, _run)
