"""Which run a record is: its own id, or a hash of its content, so that nothing is counted twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from json import JSONEncoder
from typing import Any, Final, cast

from hepm.ingest.records import RecordError, finite
from hepm.types import DISTRUSTED, OWN_STATES, Outcome, Tool, Trajectory, Turn

MAX_DEPTH: Final = 100
"""Deepest nesting of arguments: whoever writes them later recurses, too."""

MAX_PARALLEL: Final = 256
"""Most different tools in one turn: no agent calls more, and every pair with the next turn is an edge."""

_HASHED: Final = "sha-"
_encode = JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False).encode


def identified(
    own_id: str,
    turns: tuple[Turn, ...],
    outcome: Outcome,
    *,
    environment: str = "",
    task: str = "",
    model: str = "",
    file_model: str = "",
    user: str = "",
    ended_at: float | None = None,
    tags: Mapping[str, str] | None = None,
    source: str = "",
    tools: tuple[Tool, ...] = (),
) -> Trajectory:
    """A trajectory with its id: `own_id`, or the hash if that is empty.

    Args:
        file_model: The model if only the file's name has it. It stays out of the hash, since a renamed file holds the
            same runs.
    Raises:
        RecordError: no messages, arguments nested beyond `MAX_DEPTH`, or a turn of more than `MAX_PARALLEL` tools.
        UnicodeEncodeError: some text holds half a surrogate pair; clean the record and try again.
    """
    if not turns:
        raise RecordError("the run holds no messages")
    tags = {} if tags is None else tags
    turns, digest = _digest(turns, environment, task, model, tags)
    "".join((own_id, file_model, user)).encode()
    return Trajectory(
        own_id or _HASHED + digest,
        turns, outcome, environment, task, model or file_model, user, ended_at, tags, source, tools,
    )  # fmt: skip


def content_digest(trajectory: Trajectory) -> str:
    """Distinguishes a run from another one that was stored under the same id.

    An id that is a hash of the content stands for the turns, which may have been cut and redacted since.
    """
    t = trajectory
    if t.id.startswith(_HASHED):
        return _hex(_encode([t.id, t.environment, t.task]))
    # These tags are hepm's, not the run's.
    tags = {key: value for key, value in t.tags.items() if key not in (DISTRUSTED, OWN_STATES)}
    return _digest(t.turns, t.environment, t.task, t.model, tags)[1]


def check_calls(turns: Sequence[Turn], written: str) -> None:
    """Refuse what `identified` refuses of a run's calls. The run has its id and is `written` as JSON already."""
    _check_parallel(turns)
    calls = sum(len(turn.calls) for turn in turns)
    if written.count("{") + written.count("[") > MAX_DEPTH + 2 * (len(turns) + calls):
        for turn in turns:
            for call in turn.calls:
                _check_depth(call.arguments, 2)


def _digest(
    turns: tuple[Turn, ...], environment: str, task: str, model: str, tags: Mapping[str, str]
) -> tuple[tuple[Turn, ...], str]:
    """The turns, without infinite numbers ("1e999" is JSON), and the digest of all that makes them this run.

    The outcome is no part of it: a run whose label becomes known later is still the same run.
    """
    try:
        return turns, _hex(_content(turns, environment, task, model, tags))
    except UnicodeEncodeError:
        raise
    except ValueError:
        finite_calls = [[replace(call, arguments=finite(call.arguments)) for call in turn.calls] for turn in turns]
        turns = tuple(replace(turn, calls=tuple(calls)) for turn, calls in zip(turns, finite_calls, strict=True))
        return turns, _hex(_content(turns, environment, task, model, tags))


def _hex(content: str) -> str:
    return blake2b(content.encode(), digest_size=16).hexdigest()


def _content(turns: tuple[Turn, ...], environment: str, task: str, model: str, tags: Mapping[str, str]) -> str:
    """One text for each run that no other run has.

    Texts are joined as they are, since encoding megabytes as JSON costs more than reading them did; their lengths in
    the header keep them apart.
    """
    _check_parallel(turns)
    texts = [turn.text for turn in turns]
    roles = "".join([turn.role[0] for turn in turns])
    counts = [len(turn.calls) for turn in turns]
    calls: list[Any] = []
    for turn in turns:
        for call in turn.calls:
            result = call.result
            calls.append((call.name, call.arguments, call.error, result is None))
            if result is not None:
                texts.append(result)
    lengths = list(map(len, texts))
    header = _encode((environment, task, model, dict(tags), roles, counts, lengths, calls))
    if header.count("{") + header.count("[") > MAX_DEPTH + 2 * len(calls):
        _check_depth(calls)
    texts.append(header)
    return "\n".join(texts)


def _check_parallel(turns: Sequence[Turn]) -> None:
    for turn in turns:
        if len(turn.calls) > MAX_PARALLEL and (tools := len({call.name for call in turn.calls})) > MAX_PARALLEL:
            raise RecordError(f"a turn calls {tools:,} different tools; {MAX_PARALLEL} are the limit")


def _check_depth(value: Any, depth: int = 0) -> None:
    if depth > MAX_DEPTH + 1:  # the list of calls and the tuple of one come on top
        raise RecordError(f"the arguments of a call are nested deeper than {MAX_DEPTH}")
    if isinstance(value, Mapping):
        value = tuple(cast("Mapping[str, Any]", value).values())
    if isinstance(value, list | tuple):
        for item in cast("Sequence[Any]", value):
            _check_depth(item, depth + 1)
