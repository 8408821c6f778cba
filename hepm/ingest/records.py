"""Records as readers see them: decoded JSON, the ids of runs, and why a record is rejected."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import date
from decimal import Decimal
from enum import Enum
from hashlib import blake2b
from pathlib import PurePath
from typing import Any, Final, Literal, TypeAlias, cast
from uuid import UUID

from hepm.types import (
    DISTRUSTED,
    JSON,
    JUDGED_AT,
    LEVEL,
    OUTCOME_BY,
    OWN_STATES,
    RECORDED_BY,
    TRIAL,
    Outcome,
    ToolCall,
    Trajectory,
    Turn,
)

SOLVED: Final = 1 - 1e-6
"""A reward that is a success by any threshold: benchmarks write 1.0, some after a sum of floats."""


def _number(text: str) -> float | str:
    value = float(text)
    return value if math.isfinite(value) else text


DECODER: Final = json.JSONDecoder(parse_constant=str, parse_float=_number)
"""Turns NaN, Infinity and 1e999 into text: no such number reaches a reward or a vector, and JSON has none."""

MAX_DEPTH: Final = 100
"""Deepest nesting of arguments: writing them later recurses, too."""

MAX_PARALLEL: Final = 256
"""Most different tools in one turn: no agent calls more, and every pair with the next turn is an edge."""

PROJECT: Final = "project"
"""Tag of the folder that a coding agent works in."""

MAX_NAME: Final = 256
"""Characters of a tool's name; the longest ones of APIs have 128."""

MAX_LABEL: Final = 1_000
"""Characters of a run's id, user, environment and model."""

HASHED: Final = "sha-"
"""Before the hash in an id that was made of the content."""
_encode = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False).encode


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why something could not be read.

    Attributes:
        file: As shown to people; "runs.tar.xz!a/b.json" for a member of an archive.
        record: Number of the record from 1 (in JSON lines: the line); None for a whole file.
    """

    file: str
    record: int | str | None
    reason: str


@dataclass(frozen=True, slots=True)
class Remark(Rejection):
    """What is to be said of a run that was read: nothing is rejected.

    Attributes:
        kinds: How many parts of messages of each unknown kind were left out.
    """

    kinds: Mapping[str, int]


Item: TypeAlias = Trajectory | Rejection
Items: TypeAlias = Iterator[Item]


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read.

    Attributes:
        format: A reader's name, or "auto" to recognise each file by its content.
        reward_key, success_key, label_key: Where a chat record keeps its reward, whether it succeeded, and a verdict in
            words or numbers; dots for nested keys ("metadata.score").
        ids: "own" takes a record's id where it has one, "content" always hashes the content.
        command_names: Whether a shell call is named by its program, too ("Bash git"); None: for coding agents.
    """

    format: str = "auto"
    reward_key: str = "reward"
    success_key: str = "success"
    label_key: str = "label"
    ids: Literal["own", "content"] = "own"
    command_names: bool | None = None


class RecordError(Exception):
    """A record is not what its reader needs; the text becomes the reason of a Rejection."""


def filled(**values: str) -> dict[str, str]:
    """Those that are not empty."""
    return {key: value for key, value in values.items() if value}


def graded(reward: float | None, success: bool | None = None) -> Outcome:
    """An outcome; without a verdict a reward of 1 is a success and one of 0 a failure. Others wait for a threshold."""
    # Below 0 is a failure, too: some environments punish.
    if success is None and reward is not None and not 0 < reward < SOLVED:
        success = reward >= SOLVED
    return Outcome(reward, success)


def content_digest(trajectory: Trajectory) -> str:
    """Distinguishes a run from another one that was stored under the same id.

    An id that is a hash of the content stands for the turns, which may have been cut and redacted since. The outcome is
    no part of the content: a run whose label becomes known later is still the same run.

    Raises:
        RecordError: too deep arguments, or too many tools in a turn.
        UnicodeEncodeError: some text holds half a surrogate pair.
    """
    t = trajectory
    if t.id.startswith(HASHED):
        content = _encode([t.id, t.environment, t.task])
    else:
        # These tags are hepm's, not the run's; of a project's path all that was once stored is its last part.
        own_tags = (DISTRUSTED, JUDGED_AT, LEVEL, OUTCOME_BY, OWN_STATES, RECORDED_BY, TRIAL)
        tags = {key: value for key, value in t.tags.items() if key not in own_tags}
        if PROJECT in tags:
            tags[PROJECT] = re.split(r"[/\\]", tags[PROJECT])[-1]
        content = _content(t.turns, (t.environment, t.task, t.model, tags))
    return blake2b(content.encode(), digest_size=16).hexdigest()


def with_texts(
    run: Trajectory,
    said: Callable[[Turn], tuple[str, str]],
    result: Callable[[str], str],
    arguments: Callable[[Mapping[str, JSON]], Mapping[str, JSON]],
) -> Trajectory:
    """The run with every text changed: what was `said` and read in a turn, results and arguments of calls."""
    turns: list[Turn] = []
    for turn in run.turns:
        calls: list[ToolCall] = []
        for call in turn.calls:
            new_result = call.result and result(call.result)
            new_arguments = arguments(call.arguments)
            # Not replace(), which is slower.
            calls.append(ToolCall(call.name, new_arguments, new_result, call.error, call.latency_s, call.refused))
        text, read = said(turn)
        if calls or (text, read) != (turn.text, turn.read):
            turn = replace(turn, text=text, read=read, calls=tuple(calls))  # noqa: PLW2901
        turns.append(turn)
    return replace(run, turns=tuple(turns))


def check_calls(turns: Sequence[Turn]) -> None:
    """Refuse turns with too many tools or too deep arguments."""
    for turn in turns:
        tool_count = len({call.name for call in turn.calls})
        if tool_count > MAX_PARALLEL:
            raise RecordError(f"a turn calls {tool_count:,} different tools; {MAX_PARALLEL} are the limit")
        for call in turn.calls:
            _check_depth(call.arguments, 1)


def _check_depth(value: Any, depth: int) -> None:
    if isinstance(value, Mapping):
        value = list(cast("Mapping[str, Any]", value).values())
    if not isinstance(value, list | tuple):
        return
    if depth > MAX_DEPTH:
        raise RecordError(f"the arguments of a call are nested deeper than {MAX_DEPTH}")
    for item in cast("Sequence[Any]", value):
        _check_depth(item, depth + 1)


def _content(turns: tuple[Turn, ...], about: tuple[Any, ...]) -> str:
    """A text that differs between any two runs.

    Texts are joined as they are, since encoding megabytes as JSON costs more than reading them; their lengths in the
    header keep them apart.
    """
    texts = [turn.text for turn in turns]
    # "suaua": roles begin with different letters.
    roles = "".join([turn.role[0] for turn in turns])
    counts = [len(turn.calls) for turn in turns]
    calls: list[Any] = []
    for turn in turns:
        for call in turn.calls:
            result = call.result
            # Calls that ran hash as they did before there were refused ones.
            refused = ("refused",) if call.refused else ()
            calls.append((call.name, call.arguments, call.error, result is None, *refused))
            if result is not None:
                texts.append(result)
    header = _encode((*about, roles, counts, list(map(len, texts)), calls))
    check_calls(turns)
    return "\n".join([*texts, header])


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """`value` with `change` made to every key and to everything inside that is no object or list."""
    if isinstance(value, Mapping):
        return {change(key): mapped(item, change) for key, item in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [mapped(item, change) for item in cast("Sequence[Any]", value)]
    return change(value)


def finite(value: Any) -> Any:
    """`value` with every NaN and infinity inside as text: JSON has no such numbers."""
    return mapped(value, lambda leaf: str(leaf) if isinstance(leaf, float) and not math.isfinite(leaf) else leaf)


def without_surrogates(value: Any) -> Any:
    """`value` with every half of a surrogate pair replaced, since such text cannot be stored or sent."""
    return mapped(value, lambda leaf: leaf.encode("utf-8", "replace").decode() if isinstance(leaf, str) else leaf)


def decoded_text(text: str) -> Any:
    """The JSON in a text, without the halves of surrogate pairs that it may spell; ValueError or RecursionError."""
    value = DECODER.decode(text)
    return without_surrogates(value) if "\\ud" in text or "\\uD" in text else value


_OPAQUE: Final[Any] = (type, bytes, bytearray, memoryview)


def json_of(value: object) -> str:
    """Values of a program as JSON text, also pydantic models, dataclasses and other mappings; else RecordError."""
    try:
        return _ENCODER.encode(value)
    except RecursionError as error:
        raise RecordError("it is nested too deeply") from error
    except (TypeError, ValueError) as error:
        raise RecordError(f"it cannot be written as JSON: {error}") from error


def decoded(value: object) -> Any:
    """The same as lists, dictionaries, texts and numbers, none of them shared with `value`."""
    return DECODER.decode(json_of(value))


def is_record(value: object) -> bool:
    """Whether `value` is one object with named parts, though it may be iterable too, as pydantic's models are."""
    named = isinstance(value, Mapping) or is_dataclass(value) or callable(getattr(value, "model_dump", None))
    return named and not isinstance(value, type)


def _plain(value: Any) -> Any:
    """What `json` does not know, one level down."""
    # A class has `model_dump` as well, and bytes are a sequence of numbers: neither is data.
    if not isinstance(value, _OPAQUE):
        if callable(getattr(value, "model_dump", None)):  # pydantic's
            return value.model_dump(mode="json", warnings=False)
        if is_dataclass(value):
            return {field.name: getattr(value, field.name) for field in fields(value)}
        if isinstance(value, Mapping):
            return dict(cast("Mapping[str, Any]", value))
        if isinstance(value, Sequence):
            return list(cast("Sequence[Any]", value))
        if callable(getattr(value, "tolist", None)):  # of numpy's truth values, numbers and arrays
            return value.tolist()
        if isinstance(value, date | UUID | PurePath | Decimal | Enum):
            return str(value.value if isinstance(value, Enum) else value)
    raise TypeError(f"{str(value)[:40]!r} is of the type {type(value).__name__}")


_ENCODER: Final = json.JSONEncoder(default=_plain)
