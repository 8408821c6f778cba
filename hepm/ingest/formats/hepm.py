"""Runs as hepm's own JSON: the records of a store, and the lines of an export (see `hepm.ingest.formats.exported`).

One run a line; docs/reference/formats.md lists the keys. Values that equal their default are left out, and
the order of keys never changes, so that two exports can be compared.
"""

from __future__ import annotations

from json import JSONEncoder
from typing import Final

from hepm.errors import FormatError
from hepm.graph.changes import damaged_run
from hepm.ingest.fields import (
    as_list,
    as_number,
    as_object,
    flag_at,
    kind_of,
    list_at,
    number_at,
    object_at,
    objects_at,
    string_at,
    texts_in,
)
from hepm.ingest.records import DECODER, MAX_NAME, RecordError, check_calls, finite, graded
from hepm.types import Object, Outcome, Role, Tool, ToolCall, Trajectory, Turn, TurnMark

VERSION: Final = 2
"""Raised when a reader of the old version would misread the new one; keys that it may ignore do not need that.

In version 1 `success` was false also where a reward below 1 was all that was known; since 2 it is the given label.
"""

_ROLES: Final[dict[object, Role]] = {"system": "system", "user": "user", "assistant": "assistant"}
encode: Final = JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def run_of_record(record: Object) -> Trajectory:
    """The run of a decoded line, with the id and the source that it was stored with; else RecordError."""
    trajectory = _trajectory(record)
    write_run(trajectory).encode()  # half a surrogate pair shows here, and is replaced by the caller
    check_calls(trajectory.turns)
    return trajectory


def write_run(trajectory: Trajectory) -> str:
    """One line, without its end, that `parse_run` reads back as an equal trajectory."""
    record: Object = {
        "hepm": VERSION,
        "id": trajectory.id,
        **_given(trajectory, "environment", "task", "model", "user"),
        **_given(trajectory.outcome, "reward", "success"),
        **_given(trajectory, "ended_at", "tags", "source"),
    }
    if trajectory.tools:
        record["tools"] = [_given(tool, "name", "description", "parameters") for tool in trajectory.tools]
    record["turns"] = [_turn_record(turn) for turn in trajectory.turns]
    try:
        return encode(record)
    except ValueError:  # NaN or infinity among the arguments of a run made by hand: JSON has no such numbers
        return encode(finite(record))


def parse_run(line: str) -> Trajectory:
    """The trajectory of one line; FormatError if `write_run` did not write it."""
    try:
        if type(line) is not str:  # in a damaged store
            raise RecordError("it is no text")
        return _trajectory(as_object(DECODER.decode(line), "the record"))
    except (RecordError, ValueError, RecursionError) as error:
        raise FormatError(f"this is no run in hepm's own format: {error}") from error


def parse_stored(name: str, record: str) -> Trajectory:
    """A stored run; StoreDamagedError if its record cannot be read."""
    try:
        return parse_run(record)
    except FormatError as error:
        raise damaged_run(name, error) from error


def _turn_record(turn: Turn) -> Object:
    record = _given(turn, "role", "text", "calls", "reward", "recalled", "read", "hidden", "hinted")
    if turn.calls:
        keys = ("name", "arguments", "result", "error", "latency_s", "refused")
        record["calls"] = [_given(call, *keys) for call in turn.calls]
    if turn.mark is not None:
        record["mark"] = [turn.mark.at, turn.mark.scope, *turn.mark.keys]
    return record


def _given(owner: object, *keys: str) -> Object:
    """The attributes that have no default value; of some of them 0, false or "" is a value."""
    known_if_empty = ("reward", "success", "ended_at", "result", "error", "latency_s")
    values = [(key, getattr(owner, key)) for key in keys]
    return {key: value for key, value in values if value or (value is not None and key in known_if_empty)}


def check_version(record: Object) -> int:
    """The version of a line; RecordError if it has none, or a newer one than this hepm reads."""
    version = record.get("hepm")
    if type(version) is not int:
        raise RecordError(f"'hepm' should be the version of the format, not {kind_of(version)}")
    if version > VERSION:
        newer = f"format {version}, this one reads up to {VERSION}"
        raise RecordError(f"it was written by a newer hepm ({newer}): upgrade hepm")
    return version


def _trajectory(record: Object) -> Trajectory:
    version = check_version(record)
    reward = number_at(record, "reward")
    success = flag_at(record, "success")
    # Of version 1, false beside a reward between 0 and 1 was no label, but the threshold of then.
    if version == 1 and success is False and reward is not None and graded(reward).success is None:
        success = None
    tags = object_at(record, "tags")
    tools = objects_at(record, "tools", "a tool")
    run_id = string_at(record, "id")
    turns = as_list(record.get("turns"), "'turns'")
    return Trajectory(
        run_id,
        tuple([_turn(as_object(turn, "a turn")) for turn in turns]),
        Outcome(reward, success),
        string_at(record, "environment"),
        string_at(record, "task"),
        string_at(record, "model"),
        string_at(record, "user"),
        number_at(record, "ended_at"),
        {key: string_at(tags, key) for key in tags},
        string_at(record, "source"),
        tuple(map(tool_of_record, tools)),
    )


def tool_of_record(record: Object) -> Tool:
    """A tool with its description; else RecordError or ValueError."""
    return Tool(string_at(record, "name"), string_at(record, "description"), object_at(record, "parameters"))


def _turn(record: Object) -> Turn:
    role = record.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise RecordError(f"a turn has the unknown role {str(role)[:40]!r}")
    calls = tuple(map(_call, objects_at(record, "calls", "a call")))
    reward = number_at(record, "reward")
    hidden = flag_at(record, "hidden") is True
    mark = None
    if record.get("mark"):
        at, *texts = list_at(record, "mark")
        scope, *keys = texts_in(texts) or [""]
        mark = TurnMark(as_number(at, "the time of a mark"), scope, tuple(keys))
    read = string_at(record, "read")
    # By position, which is faster than by keywords: this runs for every turn of every stored run.
    return Turn(
        _ROLES[role],
        string_at(record, "text"),
        calls,
        reward,
        texts_in(record.get("recalled")),
        read,
        hidden,
        texts_in(record.get("hinted")),
        mark,
    )


def _call(record: Object) -> ToolCall:
    result = record.get("result")
    if result is not None and not isinstance(result, str):
        raise RecordError(f"a result is {kind_of(result)}, not a string")
    name = string_at(record, "name")
    if len(name) > MAX_NAME:  # said here, where the file is known
        raise RecordError(f"the name of a tool has {len(name):,} characters; {MAX_NAME} are the limit")
    return ToolCall(
        name,
        object_at(record, "arguments"),
        result,
        flag_at(record, "error"),
        number_at(record, "latency_s"),
        flag_at(record, "refused") is True,
    )
