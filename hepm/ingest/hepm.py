"""hepm's own JSON lines: what `hepm export` writes and an import reads back the same.

One run a line: {"hepm": 1, "id": ..., "turns": [{"role", "text", "calls": [{"name", "arguments", ...}]}], ...}. Values
that equal their default are left out, and the order of keys never changes, so that two exports can be compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from json import JSONDecodeError, JSONEncoder
from typing import Any, Final

from hepm.errors import FormatError
from hepm.ingest.digest import check_calls
from hepm.ingest.document import Document
from hepm.ingest.json_stream import DECODER
from hepm.ingest.records import (
    Item,
    Object,
    ReadOptions,
    RecordError,
    as_list,
    as_object,
    finite,
    kind_of,
    list_at,
    number_at,
    object_at,
)
from hepm.types import Outcome, Role, Tool, ToolCall, Trajectory, Turn

NAME = "hepm"

VERSION: Final = 1
"""Raised when a reader of the old version would misread the new one; keys that it may ignore do not need that."""

_ROLES: Final[dict[str, Role]] = {"system": "system", "user": "user", "assistant": "assistant"}
_encode = JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def recognises(document: Document) -> bool:
    """Whether the records say that they are hepm's."""
    return "hepm" in document.keys


def read(document: Document, options: ReadOptions) -> Iterator[Item]:
    """The runs of one export. Their ids and sources are the ones they were stored with."""
    del options

    def build(value: Any) -> Trajectory:
        record = as_object(value, "the record")
        trajectory = _trajectory(record)
        try:
            line = _encode(_record(trajectory))
        except ValueError:  # an infinite number, such as 1e999
            trajectory = _trajectory(as_object(finite(record), "the record"))
            line = write_run(trajectory)
        line.encode()  # half a surrogate pair shows here, and is replaced by the caller
        check_calls(trajectory.turns, line)
        return trajectory

    yield from document.each(build)


def write_run(trajectory: Trajectory) -> str:
    """One line, without its end, that `parse_run` reads back as an equal trajectory."""
    record = _record(trajectory)
    try:
        return _encode(record)
    except ValueError:  # NaN or infinity among the arguments of a run made by hand: JSON has no such numbers
        return _encode(finite(record))


def parse_run(line: str) -> Trajectory:
    """The trajectory of one line.

    Raises:
        FormatError: it is no line that `write_run` wrote.
    """
    try:
        return _trajectory(as_object(DECODER.decode(line), "the record"))
    except (RecordError, JSONDecodeError, ValueError, RecursionError) as error:
        raise FormatError(f"this is no run in hepm's own format: {error}") from error


def _record(trajectory: Trajectory) -> Object:
    outcome = trajectory.outcome
    record: Object = {"hepm": VERSION, "id": trajectory.id}
    for key, value in (
        ("environment", trajectory.environment),
        ("task", trajectory.task),
        ("model", trajectory.model),
        ("user", trajectory.user),
    ):
        if value:
            record[key] = value
    for key, value in (("reward", outcome.reward), ("success", outcome.success), ("ended_at", trajectory.ended_at)):
        if value is not None:
            record[key] = value
    if trajectory.tags:
        record["tags"] = dict(trajectory.tags)
    if trajectory.source:
        record["source"] = trajectory.source
    if trajectory.tools:
        record["tools"] = [_tool_record(tool) for tool in trajectory.tools]
    record["turns"] = [_turn_record(turn) for turn in trajectory.turns]
    return record


def _tool_record(tool: Tool) -> Object:
    record: Object = {"name": tool.name}
    if tool.description:
        record["description"] = tool.description
    if tool.parameters:
        record["parameters"] = tool.parameters
    return record


def _turn_record(turn: Turn) -> Object:
    record: Object = {"role": turn.role}
    if turn.text:
        record["text"] = turn.text
    if turn.calls:
        record["calls"] = [_call_record(call) for call in turn.calls]
    if turn.reward is not None:
        record["reward"] = turn.reward
    return record


def _call_record(call: ToolCall) -> Object:
    record: Object = {"name": call.name}
    if call.arguments:
        record["arguments"] = call.arguments
    if call.result is not None:
        record["result"] = call.result
    if call.error is not None:
        record["error"] = call.error
    if call.latency_s is not None:
        record["latency_s"] = call.latency_s
    return record


def _trajectory(record: Object) -> Trajectory:
    version = record.get("hepm")
    if type(version) is not int:
        raise RecordError(f"'hepm' should be the version of the format, not {kind_of(version)}")
    if version > VERSION:
        raise RecordError(
            f"it was written by a newer hepm (format {version}, this one reads up to {VERSION}): upgrade hepm"
        )
    return Trajectory(
        _plain(record, "id"),
        tuple([_turn(as_object(turn, "a turn")) for turn in as_list(record.get("turns"), "'turns'")]),
        Outcome(number_at(record, "reward"), _flag(record, "success")),
        _plain(record, "environment"),
        _plain(record, "task"),
        _plain(record, "model"),
        _plain(record, "user"),
        number_at(record, "ended_at"),
        _tags(object_at(record, "tags")),
        _plain(record, "source"),
        tuple([_tool(as_object(tool, "a tool")) for tool in list_at(record, "tools")]),
    )


def _turn(record: Object) -> Turn:
    role = record.get("role")
    known = _ROLES.get(role) if type(role) is str else None
    if known is None:
        raise RecordError(f"a turn has the unknown role {str(role)[:40]!r}")
    calls = record.get("calls")
    return Turn(
        known,
        _plain(record, "text"),
        tuple([_call(as_object(c, "a call")) for c in list_at(record, "calls")]) if calls else (),
        number_at(record, "reward"),
    )


def _call(record: Object) -> ToolCall:
    result = record.get("result")
    if result is not None and type(result) is not str:
        raise RecordError(f"a result is {kind_of(result)}, not a string")
    return ToolCall(
        _plain(record, "name"),
        object_at(record, "arguments"),
        result,
        _flag(record, "error"),
        number_at(record, "latency_s"),
    )


def _tool(record: Object) -> Tool:
    return Tool(_plain(record, "name"), _plain(record, "description"), object_at(record, "parameters"))


def _tags(record: Object) -> dict[str, str]:
    return {key: _plain(record, key) for key in record}


def _plain(record: Object, key: str) -> str:
    value = record.get(key, "")
    if type(value) is not str:
        raise RecordError(f"{key!r} is {kind_of(value)}, not a string")
    return value


def _flag(record: Object, key: str) -> bool | None:
    value = record.get(key)
    if value is not None and type(value) is not bool:
        raise RecordError(f"{key!r} is {kind_of(value)}, not a boolean")
    return value
