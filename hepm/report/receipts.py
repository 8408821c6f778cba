"""What memory did where it spoke: sessions, what they were worth, and a receipt for each week."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hepm.graph.trials import MEMORY, TrialSession
from hepm.report.latest import hints_of
from hepm.text import count_of, day_of
from hepm.types import Trajectory
from hepm.uplift.report import UpliftReport
from hepm.uplift.sequence import Effect

WEEKS: Final = 12
"""Weeks of which there is a receipt, the latest ones."""
_DAY_S: Final = 86_400
_TO_MONDAY: Final = 3  # 1970 began on a Thursday


@dataclass(frozen=True, slots=True)
class WeekReceipt:
    """One week.

    Attributes:
        monday: Its first day, as "2026-11-23".
        with_memory: Sessions with memory and an outcome; `succeeded` of them did so.
        controls: Sessions without memory; `controls_succeeded` of them did so.
        turned: Failures that memory turned into successes, and the ends of its interval, by the difference that all
            sessions show; None while too little is known.
    """

    monday: str
    with_memory: int
    succeeded: int
    controls: int
    controls_succeeded: int
    turned: tuple[float, float, float] | None


@dataclass(frozen=True, slots=True)
class MemoryReceipts:
    """What memory did.

    Attributes:
        sentence: What the experiment shows; "" where there is none.
        hinted, read: Of the latest runs that were read those in which a hint named a tool, and all.
        followed, hints: Of the turns that a hint named tools for those that called one, and all.
    """

    sentence: str
    receipt: str
    weeks: tuple[WeekReceipt, ...]
    hinted: int
    read: int
    followed: int
    hints: int


def week_of(ended_at: float) -> int:
    """The number of the week that a time is in, counted from the Monday before 1970."""
    return int((ended_at // _DAY_S + _TO_MONDAY) // 7)


def monday_of(week: int) -> str:
    """The first day of a week, as "2026-11-23"."""
    return day_of((7 * week - _TO_MONDAY) * _DAY_S) or ""


def receipts_of(uplift: UpliftReport, sessions: Sequence[TrialSession], latest: Sequence[Trajectory]) -> MemoryReceipts:
    """What memory did.

    Args:
        sessions: Of the experiment.
        latest: Runs in which hints are counted.
    """
    ended = [session for session in sessions if session.success is not None and not session.shadow]
    by_week: defaultdict[int, list[TrialSession]] = defaultdict(list)
    for session in ended:
        if session.ended_at is not None:
            by_week[week_of(session.ended_at)].append(session)
    with_memory = sum(session.arm == MEMORY for session in ended)
    given = [hints for hints in map(hints_of, latest) if hints]
    return MemoryReceipts(
        sentence=uplift.sentence if uplift.sessions or uplift.shadow else "",
        receipt=_receipt(with_memory, uplift.success),
        weeks=tuple(_week(week, by_week[week], uplift.success) for week in sorted(by_week)[-WEEKS:]),
        hinted=len(given),
        read=len(latest),
        followed=sum(map(sum, given)),
        hints=sum(map(len, given)),
    )


def _week(week: int, sessions: Sequence[TrialSession], effect: Effect | None) -> WeekReceipt:
    with_memory = [session for session in sessions if session.arm == MEMORY]
    controls = [session for session in sessions if session.arm != MEMORY]
    return WeekReceipt(
        monday_of(week),
        len(with_memory),
        sum(bool(session.success) for session in with_memory),
        len(controls),
        sum(bool(session.success) for session in controls),
        _turned(len(with_memory), effect),
    )


def _turned(sessions: int, effect: Effect | None) -> tuple[float, float, float] | None:
    if effect is None:
        return None
    return sessions * effect.value, sessions * effect.low, sessions * effect.high


def _receipt(sessions: int, effect: Effect | None) -> str:
    """Such as "310 sessions had memory; by the control arm it turned about 22 failures into successes"."""
    if not sessions:
        return ""
    had = f"{count_of(sessions, 'session')} had memory"
    turned = _turned(sessions, effect)
    if turned is None:
        return f"{had}; what that was worth is known when more sessions of both arms have ended."
    value, low, high = turned
    into = "failures into successes"
    if value < 0:
        into = "successes into failures"
        value, low, high = -value, -high, -low
    # A bound below 0 says that it may have been the other way round.
    return f"{had}; by the control arm it turned about {value:,.0f} {into} ({low:,.0f} to {high:,.0f})."
