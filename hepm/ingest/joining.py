"""Join what several files hold of one run: the traces of a session, rotated logs, a session that was resumed.

Readers give each turn a `TurnMark`. The turns of all parts are put in order of time and each is kept once, so that the
whole depends neither on the order of the files nor on how often one is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Final

from hepm.ingest.fields import unix_time
from hepm.types import (
    DISTRUSTED,
    JUDGED_AT,
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
    """The whole of some parts; None if these are no parts of one run: turns without marks, two users, other content."""
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
        if not conversation.add(turn):
            return None
    first = min(parts, key=lambda part: (not part.turns, [*map(_place, part.turns[:1])], part.source))
    outcome, tags = _outcome(parts)
    return replace(
        first,
        turns=tuple(conversation.turns),
        outcome=outcome,
        # By their order and not by that of the parts, which may come in any.
        environment=_least([part.environment for part in parts]),
        task=_least([part.task for part in parts]),
        model=_least([part.model for part in parts]),
        user=_least([*users]),
        ended_at=max([part.ended_at or 0.0 for part in parts]) or None,
        tags=tags,
        tools=max([part.tools for part in parts], key=len),
    )


def _place(turn: Turn) -> TurnMark:
    return turn.mark or TurnMark(0.0, "", ())


def _least(texts: Sequence[str]) -> str:
    return min(filter(None, texts), default="")


def _outcome(parts: Sequence[Trajectory]) -> tuple[Outcome, dict[str, str]]:
    """The outcome of the latest part that has one, given labels first; and the tags of all."""

    def judged_at(part: Trajectory) -> tuple[bool, float, str]:
        at = unix_time(part.tags.get(JUDGED_AT)) or part.ended_at or 0.0
        return not part.outcome_by, at, str(part.outcome)

    tags: dict[str, str] = {}
    for part in parts:
        for key, value in part.tags.items():
            tags[key] = min(value, tags.get(key, value))
    for key in (OUTCOME_BY, JUDGED_AT):
        tags.pop(key, None)
    judged = [part for part in parts if part.outcome != Outcome() or part.outcome_by]
    if not judged or DISTRUSTED in tags:
        return Outcome(), tags
    latest = max(judged, key=judged_at)
    tags[JUDGED_AT] = datetime.fromtimestamp(judged_at(latest)[1], UTC).isoformat()
    if latest.outcome_by:
        tags[OUTCOME_BY] = latest.outcome_by
    return latest.outcome, tags


class _Conversation:
    """The turns of several parts, each once, added in order of time."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        # Where a turn is, and the call in it that a key is of.
        self._places: dict[tuple[str, str], tuple[int, int]] = {}
        self._by_content: dict[str, list[tuple[int, int]]] = {}

    def add(self, turn: Turn) -> bool:
        """Take a turn, or what is new in it; whether it agrees with those before."""
        mark = _place(turn)
        places = [self._find(mark.scope, key) for key in mark.keys]
        new = [number for number, place in enumerate(places) if place is None]
        for number, place in enumerate(places):
            if place is None:
                continue
            # The same in another part: it may say more.
            position, call_number = place
            before = self.turns[position]
            calls = list(before.calls)
            if before.role != turn.role:
                return False
            if calls and turn.calls:
                if calls[call_number].name != turn.calls[number].name:
                    return False
                calls[call_number] = _fuller(calls[call_number], turn.calls[number])
            text = before.text
            if not new and len(turn.text) > len(text):
                text = turn.text
            self.turns[position] = replace(before, text=text, calls=tuple(calls))
        if new:
            keys = tuple([mark.keys[number] for number in new])
            for number, key in enumerate(keys):
                place = len(self.turns), number
                self._places[mark.scope, key] = place
                self._by_content.setdefault(key.partition(".")[0], []).append(place)
            calls = list(turn.calls)
            if calls:
                calls = [calls[number] for number in new]
            self.turns.append(replace(turn, calls=tuple(calls), mark=mark._replace(keys=keys)))
        return True

    def _find(self, scope: str, key: str) -> tuple[int, int] | None:
        """Where a turn or a call is that came before. One of earlier may be any that says the same, counted."""
        place = self._places.get((scope, key))
        if place is None and not scope:
            content, _, times = key.partition(".")
            number = int(times[:9]) if times.isdecimal() else 1
            return dict(enumerate(self._by_content.get(content, ()), 1)).get(number)
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
