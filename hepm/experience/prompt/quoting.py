"""A run as data in a prompt: quoted line by line, the turns that counted marked, bounded in characters."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from hepm.experience.distilling.study import Study
from hepm.ingest.records import is_list, is_object
from hepm.ingest.transitions import SUMMARY_TOOL, without_hints
from hepm.text import CUT, quoted
from hepm.types import ToolCall

RUN_CHARS: Final = 12_000
_LINE_CHARS: Final = 400
_KEY_LINE_CHARS: Final = 1_000


def quoted_run(it: Study, *, limit: int = RUN_CHARS) -> str:
    """The run, a line for each message and each call, of about `limit` characters at most.

    A key turn is marked `KEY 1`, `KEY 2`, in order of its credit. Of a long run, lines near key turns, near the
    beginning and near the end stay. System messages are left out: they are the agent's, not the run's.
    """
    lines = list(_lines(it))
    kept: set[int] = set()
    for at in _nearest_first(lines):
        if (limit := limit - len(lines[at].text) - 1) < 0:
            break
        kept.add(at)
    told: list[str] = []
    left_out = 0
    for at, line in enumerate(lines):
        if at not in kept:
            left_out += 1
            continue
        if left_out:
            told.append(f"{CUT} ({left_out} left out)")
            left_out = 0
        told.append(line.text)
    return "\n".join([*told, *([f"{CUT} ({left_out} left out)"] if left_out else [])])


class _Line(NamedTuple):
    text: str
    key: bool


def _lines(it: Study) -> Iterator[_Line]:
    rank = {move.turn: place for place, move in enumerate(it.keys, 1)}
    turns = 0
    for turn in it.run.turns:
        if turn.role == "system":
            continue
        turns += turn.role == "assistant"
        key = rank.get(max(turns, 1)) if turn.role == "assistant" else None
        limit = _KEY_LINE_CHARS if key else _LINE_CHARS
        mark = f"turn {turns}{f' KEY {key}' if key else ''} " if turn.role == "assistant" else ""
        who = "agent" if turn.role == "assistant" else "user"
        said = without_hints(turn.text).strip()
        if said:
            yield _Line(f"{mark}{who} said {quoted(said, limit)}", key is not None)
        for call in turn.calls:
            if call.name != SUMMARY_TOOL:
                yield _Line(f"{mark}{who} called {_call(call, limit)}", key is not None)


def _call(call: ToolCall, limit: int) -> str:
    given = quoted(json.dumps(_on_one_line(dict(call.arguments)), ensure_ascii=False, default=str), limit)
    told = "no result" if call.result is None else quoted(without_hints(call.result), limit)
    failed = ", which failed" if call.error else ""
    return f"{quoted(call.name, 64)} with {given}{failed}: {told}"


def _on_one_line(value: Any) -> Any:
    """Without line ends inside: quoted twice they would read as letters, and hide where a word begins."""
    if isinstance(value, str):
        return " ".join(value.split())
    if is_object(value):
        return {" ".join(name.split()): _on_one_line(member) for name, member in value.items()}
    return [_on_one_line(element) for element in value] if is_list(value) else value


def _nearest_first(lines: Sequence[_Line]) -> list[int]:
    """Places of lines: those of key turns, then the nearer to one, to the beginning or to the end, the earlier."""
    marks = [-1, len(lines), *(at for at, line in enumerate(lines) if line.key)]
    return sorted(range(len(lines)), key=lambda at: (min(abs(at - mark) for mark in marks), at))
