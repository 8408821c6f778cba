"""Task success, user effort and length of simulated sessions, by memory and session (MultiSessionCollab 3.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.table import Table
from rich.text import Text

from hepm.errors import InputError
from hepm.evals.bench.report import FEWEST_TASKS, endings
from hepm.evals.collaboration.play import NO_PREFERENCES, SETTINGS, Collaboration, PlayedSession
from hepm.evals.metrics import Bootstrap, FloatArray, Interval, interval
from hepm.evals.report import rounded, table_of
from hepm.text import count_of
from hepm.uplift.drawing import drawing

MEASURES: Final[Mapping[str, Callable[[PlayedSession], float]]] = {
    "task_success": lambda session: float(session.success),
    "user_effort": lambda session: len(session.enforced),
    "length": lambda session: session.length,
}

_LABELS: Final = {
    "task_success": "share of solved tasks",
    "user_effort": "turns that enforce a preference",
    "length": "messages",
}


@dataclass(frozen=True)
class UserMean:
    """A mean over users, with an interval from resampling users."""

    value: float
    interval: Interval


@dataclass(frozen=True)
class MemoryScores:
    """One memory; each mapping is by measure.

    Attributes:
        sessions: Means over users, one mapping for each session.
        mean: Means over all sessions, as the paper's tables have them (3.4).
        later: Means over the sessions from the second on, where there is something to remember.
        deltas: Differences to the reference memory by session, paired by user and problem (6, figure 3).
        gain: The difference of `mean` to the reference memory.
        difference: Of `later` to the reference memory.
    """

    sessions: Sequence[Mapping[str, UserMean]]
    mean: Mapping[str, UserMean]
    later: Mapping[str, UserMean]
    deltas: Sequence[Mapping[str, UserMean]]
    gain: Mapping[str, UserMean]
    difference: Mapping[str, UserMean]


@dataclass(frozen=True)
class CollaborationReport:
    """Sessions of the users who finished theirs with every memory.

    Attributes:
        simulator: The model that played the users; None for rules.
        reference: The memory that others are compared with.
        failed: Why sessions broke off, by memory and user.
        unreflected: Sessions after which a model's notes could not be read.
    """

    model: str
    simulator: str | None
    users: int
    sessions: int
    reference: str
    memories: Mapping[str, MemoryScores]
    unfinished: int
    failed: Mapping[str, str]
    unreflected: int
    paid_before: int
    sentences: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        """As `hepm collaborate --json` prints it."""
        return rounded(asdict(self))


def report_on(
    made: Collaboration, *, model: str, simulator: str | None = None, paid_before: int = 0, seed: int = 0
) -> CollaborationReport:
    """Compare the memories over the users who finished their sessions with all of them."""
    memories, sessions, users = made.memories, made.sessions, [user.name for user in made.users]
    found = {(one.memory, one.user, one.number): one for one in made.played}
    numbers = range(1, sessions + 1)
    whole = [user for user in users if all((m, user, n) in found for m in memories for n in numbers)]
    reference = "none" if "none" in memories else memories[0]
    scores: dict[str, MemoryScores] = {}
    if whole:
        draws = Bootstrap(whole, seed=seed)

        def values_of(memory: str, measure: str) -> FloatArray:
            """Of each user's sessions, shape (U, S)."""
            of = MEASURES[measure]
            return np.array([[of(found[memory, user, n]) for n in numbers] for user in whole], dtype=np.float64)

        def measured(values_U: FloatArray) -> UserMean:
            return UserMean(float(values_U.mean()), interval(draws.means(values_U)))

        def by_session(all_US: Mapping[str, FloatArray]) -> list[Mapping[str, UserMean]]:
            return [{name: measured(one_US[:, at]) for name, one_US in all_US.items()} for at in range(sessions)]

        def from_session(first: int, all_US: Mapping[str, FloatArray]) -> Mapping[str, UserMean]:
            return {name: measured(one_US[:, first:].mean(axis=1)) for name, one_US in all_US.items()}

        second = min(1, sessions - 1)  # a single session is reported as it is
        for memory in memories:
            all_US = {measure: values_of(memory, measure) for measure in MEASURES}
            gains_US = {
                measure: all_US[measure] - values_of(reference, measure) for measure in MEASURES if memory != reference
            }
            scores[memory] = MemoryScores(
                sessions=by_session(all_US),
                mean=from_session(0, all_US),
                later=from_session(second, all_US),
                deltas=by_session(gains_US) if gains_US else [],
                gain=from_session(0, gains_US),
                difference=from_session(second, gains_US),
            )
    return CollaborationReport(
        model,
        simulator,
        users=len(whole),
        sessions=sessions,
        reference=reference,
        memories=scores,
        unfinished=len(users) - len(whole),
        failed=dict(made.failed),
        unreflected=made.unreflected,
        paid_before=paid_before,
        sentences=[
            _sentence(memory, reference, scores, len(whole), sessions)
            for memory in scores
            if memory not in (reference, *NO_PREFERENCES)
        ],
    )


def _sentence(memory: str, reference: str, scores: Mapping[str, MemoryScores], users: int, sessions: int) -> str:
    effort, gain = (scores[one].later["user_effort"].value for one in (memory, reference)), scores[memory].difference
    mine, theirs = effort
    low, high = gain["user_effort"].interval
    if users < FEWEST_TASKS:
        so = "too few users to say more"
    elif low <= 0 <= high:
        so = "no more than chance explains"
    else:
        so = "less, by more than chance explains" if high < 0 else "more, by more than chance explains"
    when = "from the second session on" if sessions > 1 else "in the only session"
    return (
        f"With {memory}, users enforced a preference {mine:.2f} times a session {when}, with {reference} {theirs:.2f} "
        f"times: {so} (difference {gain['user_effort'].value:+.2f}, 95 % interval {low:+.2f} to {high:+.2f}, "
        f"{count_of(users, 'user')})."
    )


def tables(report: CollaborationReport) -> list[Table | Text]:
    """The report for a terminal."""
    table = table_of(_title(report), "memory", "session", "task success", "user effort", "length")
    for memory, scores in report.memories.items():
        name = f"{memory} ({SETTINGS[memory]})" if memory in SETTINGS else memory
        for number, means in enumerate(scores.sessions, 1):
            table.add_row(name if number == 1 else "", str(number), *_cells(means))
        if report.sessions > 1:
            table.add_row("", "all", *_cells(scores.mean))
    parts: list[Table | Text] = [table]
    if len(report.memories) > 1:
        parts += _differences(report)
    if report.unreflected:
        said = count_of(report.unreflected, "session")
        parts.append(Text(f"After {said} the model's notes could not be read, and the old ones stayed."))
    return [*parts, *endings(report, "user", "user")]


def _differences(report: CollaborationReport) -> list[Table]:
    """By session, and over sessions with intervals."""
    what = f"difference to {report.reference}, paired by user and problem"
    measures = ("task success", "user effort", "length")
    by_session = table_of(f"{what}, by session", "memory", "session", *measures)
    over_all = table_of(f"{what}, mean over all sessions, with 95 % intervals", "memory", *measures)
    for memory, scores in report.memories.items():
        for number, deltas in enumerate(scores.deltas, 1):
            by_session.add_row(
                memory if number == 1 else "", str(number), *(f"{one.value:+.2f}" for one in deltas.values())
            )
        if scores.gain:
            over_all.add_row(memory, *map(_signed, scores.gain.values()))
    return [by_session, over_all] if report.sessions > 1 else [over_all]


def _title(report: CollaborationReport) -> str:
    users = f"{count_of(report.users, 'user')}{f' played by {report.simulator}' if report.simulator else ''}"
    return f"{report.model}: {users}, {count_of(report.sessions, 'session')} each"


def draw(report: CollaborationReport, file: Path) -> None:
    """Draw each measure by session and memory with its interval; see `hepm.evals.bench.report.drawing`."""
    if not report.memories:
        raise InputError("there is nothing to draw: no user has finished with every memory.")
    with drawing(
        file, f"{_title(report)}, with 95 % intervals over users", size=(11, 3.6), panels=len(MEASURES)
    ) as panels:
        for axes, measure in zip(panels, MEASURES, strict=True):
            for at, (memory, scores) in enumerate(report.memories.items()):
                means = [found[measure] for found in scores.sessions]
                # Side by side, as equal values would hide each other.
                places = [number + 0.08 * (at - (len(report.memories) - 1) / 2) for number in range(1, len(means) + 1)]
                lines = axes.plot(places, [one.value for one in means], "o-", label=memory, clip_on=False)
                axes.vlines(places, *zip(*(one.interval for one in means), strict=True), color=lines[0].get_color())
            axes.set_ylim(0, 1.05 if measure == "task_success" else None)
            axes.set_xticks(range(1, report.sessions + 1))
            axes.set_xlabel("session")
            axes.set_title(_LABELS[measure])
        panels[0].legend(title="memory")


def _cells(means: Mapping[str, UserMean]) -> list[str]:
    return [f"{one.value:.2f} ({one.interval.low:.2f}–{one.interval.high:.2f})" for one in means.values()]


def _signed(one: UserMean) -> str:
    return f"{one.value:+.2f} ({one.interval.low:+.2f} to {one.interval.high:+.2f})"
