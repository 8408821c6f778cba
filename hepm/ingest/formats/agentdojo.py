"""Runs of AgentDojo: https://github.com/ethz-spylab/agentdojo."""

from __future__ import annotations

from typing import Final

from hepm.ingest.fields import as_list, flag_at, text_at, unix_time
from hepm.ingest.formats.document import Document, record_reader
from hepm.ingest.formats.turns import chat_turns
from hepm.ingest.records import filled, graded
from hepm.types import Object, Trajectory


def _run(record: Object, document: Document) -> Trajectory:
    """One object a file, under runs/. It has no id. `utility` is whether the user's task was solved."""
    utility = flag_at(record, "utility")
    reward = None
    # So the benchmark reports that a model's provider failed; a context too long for the model is a failure.
    if utility is not None and "internal server error" not in text_at(record, "error"):
        reward = float(utility)
    user_task = text_at(record, "user_task_id")
    injection = text_at(record, "injection_task_id")
    return document.run(
        "",
        chat_turns(as_list(record.get("messages"), "'messages'")),
        graded(reward),
        environment="agentdojo-" + text_at(record, "suite_name"),
        # The attackers' goals are also run as tasks of their own, without a user task.
        task=user_task or injection,
        model=text_at(record, "pipeline_name"),
        ended_at=unix_time(record.get("evaluation_timestamp")),
        tags=filled(attack=text_at(record, "attack_type"), injection=user_task and injection),
    )


READER: Final = record_reader("agentdojo", lambda document: {"suite_name", "messages"} <= document.keys, _run)
