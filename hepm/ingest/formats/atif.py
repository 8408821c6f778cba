"""ATIF, the Agent Trajectory Interchange Format (v1.0 to v1.8): https://harborframework.com/docs/trajectory-format.

It has no field for an outcome: a Harbor trial keeps it in result.json beside or above the trajectory, and hepm under
extra.hepm.
"""

from __future__ import annotations

from typing import Any, Final

from hepm.ingest.fields import (
    Objects,
    as_number,
    first_time,
    flag_at,
    list_at,
    number_at,
    object_at,
    objects_at,
    plain_text,
    text_at,
    value_at,
)
from hepm.ingest.formats.document import Document, Reader, RunOrigin
from hepm.ingest.formats.turns import OpenCall, TurnBuilder
from hepm.ingest.records import SOLVED, Items, RecordError, filled, graded
from hepm.ingest.tools import listed_tools
from hepm.types import Object, Outcome, Role, Trajectory

_KNOWN_MINOR: Final = 8
_ROLES: Final[dict[str, Role]] = {"system": "system", "user": "user", "agent": "assistant"}


def _recognises(document: Document) -> bool:
    return {"schema_version", "steps"} <= document.keys or _is_trial_result(document)


def _is_trial_result(document: Document) -> bool:
    """Harbor's result.json, which is read together with its trajectory."""
    return document.file_name == "result.json" and {"trial_name", "verifier_result"} <= document.keys


def _read(document: Document) -> Items:
    if not _is_trial_result(document):
        trial = _trial_result(document)
        yield from document.each(lambda record: _run(record, document, trial))


def _trial_result(document: Document) -> Object:
    """Harbor's result.json of this trial; empty if there is none."""
    # Harbor writes agent/trajectory.json into a trial's folder; others put it right there.
    for path in ("result.json", "../result.json"):
        value = document.beside(path)
        if "verifier_result" in value:
            return value
    return {}


def _run(record: Object, origin: RunOrigin, trial: Object) -> Trajectory:
    # What sub-agents did is not read.
    _check_version(record.get("schema_version"))
    agent = object_at(record, "agent")
    own = object_at(record, "extra.hepm")
    steps = objects_at(record, "steps", "a step")
    environment, task, outcome = _labelled(record, own, trial)
    tags = {key: text_at(own["tags"], key) for key in object_at(own, "tags")}
    builder = TurnBuilder()
    for step in steps:
        # After a compaction of its context an agent's log repeats earlier steps.
        if not step.get("is_copied_context"):
            _add_step(builder, step)
    return origin.run(
        text_at(record, "trajectory_id", "session_id"),
        builder.build(),
        outcome,
        environment=environment,
        task=task,
        model=text_at(agent, "model_name") or _model_of(steps),
        user=text_at(own, "user"),
        ended_at=first_time(reversed(steps), "timestamp"),
        tags={**tags, **filled(agent=tags.get("agent") or text_at(agent, "name"))},
        tools=listed_tools(list_at(agent, "tool_definitions")),
    )


def _labelled(record: Object, own: Object, trial: Object) -> tuple[str, str, Outcome]:
    """The environment, the task and the outcome: as hepm wrote them, or Harbor."""
    if own:
        return (
            text_at(own, "environment"),
            text_at(own, "task"),
            graded(number_at(own, "reward"), flag_at(own, "success")),
        )
    return text_at(trial, "source"), text_at(trial, "task_name"), _trial_outcome(trial)


def _model_of(steps: Objects) -> str:
    models = (text_at(step, "model_name") for step in steps if step.get("source") == "agent")
    return next(filter(None, models), "")


def _check_version(version: Any) -> None:
    if not isinstance(version, str) or not version.startswith("ATIF-v"):
        raise RecordError(f"'schema_version' is {str(version)[:30]!r}, not an ATIF version")
    major, _, minor = version.removeprefix("ATIF-v").partition(".")
    if major != "1" or not minor.isdecimal() or int(minor) > _KNOWN_MINOR:
        raise RecordError(f"it is {version[:30]}, and this hepm reads ATIF up to v1.{_KNOWN_MINOR}: upgrade hepm")


def _trial_outcome(trial: Object) -> Outcome:
    """The verifier's reward; the mean of its criteria if it has several, and a success only if all were met."""
    # A reward that was computed after the infrastructure broke down says nothing of the agent.
    if trial.get("exception_info") is not None:
        return Outcome()
    rewards = object_at(trial, "verifier_result.rewards")
    if not rewards:
        return Outcome()
    if "reward" in rewards:
        return graded(as_number(rewards["reward"], "the verifier's reward"))
    values = [as_number(value, f"the verifier's reward {name!r}") for name, value in rewards.items()]
    # Criteria have no weights in the format.
    mean = sum(values) / len(values)
    return Outcome(mean, mean >= SOLVED)


def _add_step(builder: TurnBuilder, step: Object) -> None:
    source = step.get("source")
    role = _ROLES.get(str(source))
    if role is None:
        raise RecordError(f"a step has the unknown source {str(source)[:40]!r}")
    calls: list[OpenCall] = []
    for call in objects_at(step, "tool_calls", "a tool call"):
        calls.append(OpenCall(call.get("tool_call_id"), call.get("function_name"), call.get("arguments")))
    text = plain_text(step.get("message"))
    results = objects_at(object_at(step, "observation"), "results", "a result")
    # A step that only brings results back is no message of its own.
    if text or calls or not results:
        builder.add(role, text, calls)
    for result in results:
        failed = value_at(result, "extra.is_error")
        if failed is None and value_at(result, "extra.error"):
            failed = True
        builder.add_result(result.get("source_call_id"), plain_text(result.get("content")), failed)


READER: Final = Reader("atif", _recognises, _read)
