"""ATIF, the Agent Trajectory Interchange Format (v1.0 to v1.8): https://harborframework.com/docs/trajectory-format.

It has no field for an outcome: a Harbor trial keeps it in result.json beside or above the trajectory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import Final

from hepm.ingest.fields import (
    as_number,
    first_time,
    list_at,
    object_at,
    objects_at,
    plain_text,
    text_at,
    value_at,
)
from hepm.ingest.formats.document import Document, Reader, RunOrigin
from hepm.ingest.formats.turns import plain_turns
from hepm.ingest.records import SOLVED, Items, RecordError, filled, graded
from hepm.ingest.tools import listed_tools
from hepm.types import Object, Outcome, Trajectory

_ROLES: Final = {"system": "system", "user": "user", "agent": "assistant"}


def _is_trial_result(document: Document) -> bool:
    """Harbor's result.json, which is read together with its trajectory."""
    return document.file_name == "result.json" and {"trial_name", "verifier_result"} <= document.keys


def _read(document: Document) -> Items:
    if _is_trial_result(document):
        return iter(())
    # Harbor writes agent/trajectory.json into a trial's folder; others put it right there.
    beside = map(document.beside, ("result.json", "../result.json"))
    trial = next((found for found in beside if "verifier_result" in found), Object())
    return document.each(lambda record: _run(record, document, trial))


def _run(record: Object, origin: RunOrigin, trial: Object) -> Trajectory:
    # What sub-agents did is not read.
    version = str(record.get("schema_version"))
    if not version.startswith("ATIF-v"):
        raise RecordError(f"'schema_version' is {version[:30]!r}, not an ATIF version")
    if not re.fullmatch(r"ATIF-v1\.0*[0-8]", version):
        raise RecordError(f"it is {version[:30]}, and this hepm reads ATIF up to v1.8: upgrade hepm")
    agent = object_at(record, "agent")
    # After a compaction of its context an agent's log repeats earlier steps.
    steps = [step for step in objects_at(record, "steps", "a step") if not step.get("is_copied_context")]
    models = [text_at(step, "model_name") for step in steps if step.get("source") == "agent"]
    return origin.run(
        text_at(record, "trajectory_id|session_id"),
        plain_turns(list(chain.from_iterable(map(_messages, steps)))),
        _trial_outcome(trial),
        environment=text_at(trial, "source"),
        task=text_at(trial, "task_name"),
        model=text_at(agent, "model_name") or next(filter(None, models), ""),
        ended_at=first_time(reversed(steps), "timestamp"),
        tags=filled(agent=text_at(agent, "name")),
        tools=listed_tools(list_at(agent, "tool_definitions")),
    )


def _trial_outcome(trial: Object) -> Outcome:
    """The verifier's reward; the mean of its criteria if it has several, and a success only if all were met."""
    # A reward that was computed after the infrastructure broke down says nothing of the agent.
    rewards = object_at(trial, "verifier_result.rewards")
    if trial.get("exception_info") is not None or not rewards:
        return Outcome()
    if "reward" in rewards:
        return graded(as_number(rewards["reward"], "the verifier's reward"))
    values = [as_number(value, f"the verifier's reward {name!r}") for name, value in rewards.items()]
    # Criteria have no weights in the format.
    mean = sum(values) / len(values)
    return Outcome(mean, mean >= SOLVED)


def _messages(step: Object) -> Iterator[Object]:
    """A step as OpenAI's messages: a text with calls, and their results."""
    source = str(step.get("source"))
    if source not in _ROLES:
        raise RecordError(f"a step has the unknown source {source[:40]!r}")
    calls = [
        {"id": call.get("tool_call_id"), "name": call.get("function_name"), "arguments": call.get("arguments")}
        for call in objects_at(step, "tool_calls", "a tool call")
    ]
    text = plain_text(step.get("message"))
    results = objects_at(object_at(step, "observation"), "results", "a result")
    # A step that only brings results back is no message of its own.
    if text or calls or not results:
        yield {"role": _ROLES[source], "content": text, "tool_calls": calls}
    for result in results:
        yield {
            "role": "tool",
            "tool_call_id": result.get("source_call_id"),
            "content": plain_text(result.get("content")),
            "is_error": value_at(result, "extra.is_error"),
        }


READER: Final = Reader(
    "atif", lambda document: {"schema_version", "steps"} <= document.keys or _is_trial_result(document), _read
)
