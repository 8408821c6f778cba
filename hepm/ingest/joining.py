"""Join what several files hold of one run: the traces of a session, rotated logs, a session that was resumed.

Readers give each turn a `TurnMark`. The turns of all parts are put in order of time and each is kept once, so that the
whole depends neither on the order of the files nor on how often one is read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Final

from hepm.types import (
    DISTRUSTED,
    OUTCOME_BY,
    RECORDED_BY,
    Outcome,
    ToolCall,
    Trajectory,
    Turn,
    TurnMark,
)

MOST_TURNS: Final = 20_000
"""Turns of a whole: it is written anew with each part, and real conversations have some hundreds."""


def mark_key(text: str, times: int = 1) -> str:
    """The key of a message or a call, by its id or else what it says, that comes for the n-th time."""
    key = blake2b(text.encode("utf-8", "replace"), digest_size=6).hexdigest()
    return f"{key}.{times}" if times > 1 else key


def mark_of_calls(mark: TurnMark, ids: Sequence[str]) -> TurnMark:
    """The mark of a message with calls of these ids, "" for unknown ones."""
    base, dot, times = mark.keys[0].partition(".")
    keys = [mark_key(id or f"{base} {number}") + dot + times for number, id in enumerate(ids)]
    return mark._replace(keys=tuple(keys))


def joined(parts: Sequence[Trajectory]) -> Trajectory | None:
    """The whole of some parts; None if these are no parts of one run: turns without marks, or two users."""
    if len(parts) == 1:
        return parts[0]
    turns = [turn for part in parts for turn in part.turns]
    users = {part.user for part in parts if part.user}
    tokens = {part.tags.get(RECORDED_BY) for part in parts}
    are_marked = all(len(_place(turn).keys) == max(1, len(turn.calls)) for turn in turns)
    if len(users) > 1 or len(tokens) > 1 or len(turns) > MOST_TURNS or not are_marked:
        return None
    conversation = _Conversation()
    for turn in sorted(turns, key=_place):
        conversation.add(turn)
    # By their times and not as they come, which may be in any order.
    ordered = sorted(parts, key=lambda part: (not part.turns, [*map(_place, part.turns[:1])], part.source))
    keys = ("environment", "task", "model", "user")
    about = {key: next((getattr(part, key) for part in ordered if getattr(part, key)), "") for key in keys}
    outcome, tags = _outcome(ordered)
    return replace(
        ordered[0],
        turns=tuple(conversation.turns),
        outcome=outcome,
        ended_at=max([part.ended_at or 0.0 for part in parts]) or None,
        tags=tags,
        tools=max([part.tools for part in ordered], key=len),
        **about,
    )


def _place(turn: Turn) -> TurnMark:
    return turn.mark or TurnMark(0.0, "", ())


def _outcome(parts: Sequence[Trajectory]) -> tuple[Outcome, dict[str, str]]:
    """The outcome of the latest part that has one, given labels first; and the tags of all."""
    tags: dict[str, str] = {}
    for part in reversed(parts):
        tags |= part.tags
    tags.pop(OUTCOME_BY, None)
    judged = [part for part in parts if part.outcome != Outcome() or part.outcome_by]
    if not judged or DISTRUSTED in tags:
        return Outcome(), tags
    latest = max(judged, key=lambda part: (not part.outcome_by, part.ended_at or 0.0))
    if latest.outcome_by:
        tags[OUTCOME_BY] = latest.outcome_by
    return latest.outcome, tags


class _Conversation:
    """The turns of several parts, each once, added in order of time."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        # Where a turn is, and the call in it that a key is of.
        self._places: dict[tuple[str, str], tuple[int, int]] = {}
        self._by_content: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)

    def add(self, turn: Turn) -> None:
        """Take a turn, or what is new in it."""
        mark = _place(turn)
        keys: list[str] = []
        calls: list[ToolCall] = []
        for number, key in enumerate(mark.keys):
            call = turn.calls[number : number + 1]
            known = self._find(mark.scope, key)
            if known is None:
                place = len(self.turns), len(keys)
                self._places[mark.scope, key] = place
                self._by_content[key.partition(".")[0]].append(place)
                keys.append(key)
                calls += call
            elif call:
                position, which = known
                merged = list(self.turns[position].calls)
                merged[which : which + 1] = [_fuller(before, call[0]) for before in merged[which : which + 1]]
                self.turns[position] = replace(self.turns[position], calls=tuple(merged))
        if keys:
            self.turns.append(replace(turn, calls=tuple(calls), mark=mark._replace(keys=tuple(keys))))

    def _find(self, scope: str, key: str) -> tuple[int, int] | None:
        """Where a turn or a call is that came before. One of earlier may be any that says the same, counted."""
        place = self._places.get((scope, key))
        if place is None and not scope:
            content, _, times = key.partition(".")
            number = int(times[:9]) if times.isdecimal() else 1
            return dict(enumerate(self._by_content[content], 1)).get(number)
        return place


def _fuller(before: ToolCall, after: ToolCall) -> ToolCall:
    """A call of two records of it: what the tool's own record says counts, which has the time that it took."""
    if after.latency_s is not None and before.latency_s is None:
        before, after = after, before
    return replace(
        before,
        arguments=before.arguments or after.arguments,
        result=after.result if before.result is None else before.result,
        error=after.error if before.error is None else before.error,
        refused=before.refused or after.refused,
    )
