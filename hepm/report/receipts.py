"""What memory did where it spoke: sessions, what they were worth, and a receipt for each week."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from hepm.graph.mirror.namespace_mirror import NamespaceMirror
from hepm.graph.trials import MEMORY, TrialSession
from hepm.report.latest import hints_of
from hepm.report.rows import ReportRow
from hepm.text import count_of, day_of
from hepm.types import Trajectory
from hepm.uplift.report import UpliftReport
from hepm.uplift.sequence import Effect

WEEKS: Final = 12
"""Weeks of which there is a receipt, the latest ones."""
_DAY_S: Final = 86_400
_TO_MONDAY: Final = 3  # 1970 began on a Thursday


def week_of(ended_at: float) -> int:
    """The number of the week that a time is in, counted from the Monday before 1970."""
    return int((ended_at // _DAY_S + _TO_MONDAY) // 7)


def monday_of(week: int) -> str:
    """The first day of a week, as "2026-11-23"."""
    return day_of((7 * week - _TO_MONDAY) * _DAY_S) or ""


def receipts_of(
    uplift: UpliftReport, sessions: Sequence[TrialSession], latest: Sequence[Trajectory], mirror: NamespaceMirror
) -> list[ReportRow]:
    """What memory did: what the experiment shows, a receipt with a line for each week, and how often it was followed.

    Args:
        sessions: Of the experiment.
        latest: Runs in which hints are counted, but for hints of a call that nearly all runs make there.
    """
    rows: list[ReportRow] = []
    if uplift.sessions or uplift.shadow:
        rows.append(ReportRow(uplift.sentence))
    ended = [session for session in sessions if session.success is not None and not session.shadow]
    with_memory = sum(session.arm == MEMORY for session in ended)
    if with_memory:
        by_week: defaultdict[int, list[TrialSession]] = defaultdict(list)
        for session in ended:
            if session.ended_at is not None:
                by_week[week_of(session.ended_at)].append(session)
        weeks = [_week(week, by_week[week], uplift.success) for week in sorted(by_week)[-WEEKS:]]
        receipt = f"{count_of(with_memory, 'session')} had memory"
        if uplift.success is None:
            receipt += "; what that was worth is known when more sessions of both arms have ended."
        else:
            receipt += f"; by the control arm it {_turned(with_memory, uplift.success)}."
        rows.append(ReportRow(receipt, below=weeks))
    hinted = sum(bool(hints_of(run)) for run in latest)
    if hinted:
        counted = [hint for run in latest for hint in hints_of(run, mirror.is_usual)]
        hints, followed = len(counted), sum(counted)
        share = f"{followed:,} of {count_of(hints, 'hint')} followed, calls that nearly all runs make left out"
        named = f"a hint named a tool in {hinted:,} of the latest {count_of(len(latest), 'run')}; {share}"
        rows.append(ReportRow(named, counts={"hints": hints, "followed": followed}))
    return rows


def _week(week: int, sessions: Sequence[TrialSession], effect: Effect | None) -> str:
    """Such as "week of 2026-11-23: 40 with memory, 30 succeeded; without memory 2 of 5; turned about 9 failures …"."""
    with_memory = [bool(session.success) for session in sessions if session.arm == MEMORY]
    controls = [bool(session.success) for session in sessions if session.arm != MEMORY]
    line = f"week of {monday_of(week)}: {len(with_memory):,} with memory, {sum(with_memory):,} succeeded"
    if controls:
        line += f"; without memory {sum(controls):,} of {len(controls):,}"
    if effect is not None:
        line += f"; {_turned(len(with_memory), effect)}"
    return line


def _turned(sessions: int, effect: Effect) -> str:
    """Such as "turned about 22 failures into successes (4 to 40)", by the difference that all sessions show.

    A bound below 0 says that it may have been the other way round.
    """
    low, high = sessions * effect.low, sessions * effect.high
    return f"turned about {sessions * effect.value:,.0f} failures into successes ({low:,.0f} to {high:,.0f})"
