"""Trials of a task that are sessions of one user: means and differences by session (MultiSessionCollab 3.4, 6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import numpy as np
from rich.table import Table

from hepm.errors import InputError
from hepm.evals.report import MethodDifference, table_of
from hepm.lab.bench.folder import Facts
from hepm.lab.bench.scores import FEWEST_TASKS, BenchReport, SessionMean
from hepm.text import count_of
from hepm.uplift.drawing import drawing

# UE of MultiSessionCollab (3.3): turns in which a user enforces preferences.
EFFORT: Final = "user_effort"
SESSION_MEASURES: Final[Mapping[str, Callable[[Facts], float]]] = {
    "success": lambda facts: float(facts.success),
    EFFORT: lambda facts: facts.scores[EFFORT],
    "length": lambda facts: facts.scores["length"],
}
_LABELS: Final = {
    "success": "share of solved tasks",
    EFFORT: "turns that enforce a preference",
    "length": "messages",
}


def effort_sentence(
    arm: str, later: Mapping[str, SessionMean], reference: str, without: Mapping[str, SessionMean], report: BenchReport
) -> str:
    """Whether users enforce less with what an arm remembers.

    Args:
        later, without: The means of the arm and of the reference, from the second session on.
    """
    gain = later[EFFORT].difference
    assert gain is not None
    # Less effort is better: a difference below 0 is a gain.
    low, high = gain.interval
    if report.tasks < FEWEST_TASKS:
        verdict = "too few users to say more"
    elif low <= 0 <= high:
        verdict = "no more than chance explains"
    elif high < 0:
        verdict = "less, by more than chance explains"
    else:
        verdict = "more, by more than chance explains"
    when = "from the second session on" if report.trials > 1 else "in the only session"
    return (
        f"With {arm}, users enforced a preference {later[EFFORT].value:.2f} times a session {when}, with {reference} "
        f"{without[EFFORT].value:.2f} times: {verdict} (difference {gain.value:+.2f}, 95 % interval {low:+.2f} to "
        f"{high:+.2f}, {count_of(report.tasks, 'user')})."
    )


def session_tables(report: BenchReport) -> list[Table]:
    """Each measure by arm and session with its interval, and the differences to the reference."""
    measures = [name.replace("_", " ") for name in SESSION_MEASURES]
    means_table = table_of("by session, with 95 % intervals over users", "arm", "session", *measures)
    title = f"difference to {report.reference} by session, paired by user and problem"
    differences_table = table_of(title, "arm", "session", *measures)
    for arm, scores in report.arms.items():
        for number, means in enumerate(scores.sessions, 1):
            # Named once, above its sessions.
            name = arm if number == 1 else ""
            means_table.add_row(name, str(number), *[_cell(means[measure]) for measure in SESSION_MEASURES])
            if arm != report.reference:
                cells = [_signed(means[measure].difference) for measure in SESSION_MEASURES]
                differences_table.add_row(name, str(number), *cells)
    if len(report.arms) < 2:
        return [means_table]
    return [means_table, differences_table]


def _cell(mean: SessionMean) -> str:
    return f"{mean.value:.2f} ({mean.interval.low:.2f}–{mean.interval.high:.2f})"


def _signed(difference: MethodDifference | None) -> str:
    if difference is None:
        return ""
    return f"{difference.value:+.2f}"


def draw_sessions(report: BenchReport, file: Path) -> None:
    """Draw each measure by session and arm with its interval; see `hepm.uplift.drawing.drawing`."""
    if not report.arms:
        raise InputError("there is nothing to draw: no user has finished in every arm.")
    title = f"{report.environment} with {report.model}: {count_of(report.tasks, 'user')}, with 95 % intervals"
    with drawing(file, title, size=(11, 3.6), panels=len(SESSION_MEASURES)) as panels:
        for axes, measure in zip(panels, SESSION_MEASURES, strict=True):
            for index, (arm, scores) in enumerate(report.arms.items()):
                means = [of_session[measure] for of_session in scores.sessions]
                # Side by side, as equal values would hide each other.
                offset = 0.08 * (index - (len(report.arms) - 1) / 2)
                places = np.arange(1, len(means) + 1) + offset
                lows = [mean.interval.low for mean in means]
                highs = [mean.interval.high for mean in means]
                lines = axes.plot(places, [mean.value for mean in means], "o-", label=arm, clip_on=False)
                axes.vlines(places, lows, highs, color=lines[0].get_color())
            axes.set_ylim(0, 1.05 if measure == "success" else None)  # a share; others end where they end
            axes.set_xticks(range(1, report.trials + 1))
            axes.set_xlabel("session")
            axes.set_title(_LABELS[measure])
        panels[0].legend(title="arm")
