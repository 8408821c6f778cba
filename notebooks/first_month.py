"""A team's first month with hepm, simulated: days of sessions at a made-up service desk, hinted or held out."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes

from hepm import Memory, Suggestions
from hepm.experience.prompt import PromptOptions
from hepm.lab.desks.service_desk import Desk, DeskRun
from hepm.memory.session import Session
from hepm.uplift.report import UpliftReport

DAYS, A_DAY, SHADOW_DAYS = 30, 20, 7
HOLDOUT, FOLLOW = 0.1, 0.9
HINTS_ALONE = PromptOptions(experiences=0, principles=0)  # what this simulated agent does not read costs only time


class Ended(NamedTuple):
    """A session: its day from 0, its arm ("" outside of an experiment), and whether it succeeded."""

    day: int
    arm: str
    success: bool


def play_day(memory: Memory, desk: Desk, episodes: Sequence[DeskRun], day: int) -> list[Ended]:
    """Sessions side by side: an agent asks memory before each call, does as it says in nine of ten turns, and ends."""
    about = {"environment": "service desk", "tools": desk.tools, "prompt_options": HINTS_ALONE, "distill": False}
    ended: list[Ended] = []
    finish: list[Callable[[], None]] = []
    for episode in episodes:
        session = memory.session(id=episode.name, **about)

        def hint(now: DeskRun, calls: tuple[str, ...], session: Session = session) -> Suggestions:
            return session.prompt(now.messages(calls)).suggestions

        calls, success = desk.run(episode, hint, follow=FOLLOW)
        finish.append(partial(session.finish, success=success, messages=episode.messages(calls)))
        ended.append(Ended(day, "" if session.trial is None else session.trial.arm, success))
    for end in finish:
        end()
    return ended


def days(store: Path, desk: Desk, first: int, last: int, *, holdout: float) -> list[Ended]:
    """The sessions of some days, with a share of them held out: 1 for shadow mode."""
    episodes = list(desk.training(DAYS * A_DAY))
    with Memory.open(store, holdout=holdout) as memory:
        played = [play_day(memory, desk, episodes[day * A_DAY : (day + 1) * A_DAY], day) for day in range(first, last)]
    return [one for of_day in played for one in of_day]


def draw_month(sessions: Sequence[Ended], report: UpliftReport, axes: Sequence[Axes], *, ink: str, grey: str) -> None:
    """Success by week and arm, and how the difference that memory makes became known."""
    left, right = axes
    left.figure.suptitle(report.sentence, color=ink, fontsize=11)
    weeks = sorted({one.day // 7 for one in sessions})
    for arm, colour, shift in (("control", grey, -0.2), ("memory", ink, 0.2)):
        for week in weeks:
            won = [one.success for one in sessions if one.day // 7 == week and one.arm == arm]
            if won:
                share = 100 * sum(won) / len(won)
                left.bar(week + 1 + shift, share, 0.38, color=colour)
                left.text(week + 1 + shift, share + 1, str(len(won)), ha="center", fontsize=7)
        left.bar(0, 0, color=colour, label={"control": "held out", "memory": "with memory"}[arm])
    left.set(xlabel="week", ylabel="% succeeded", ylim=(0, 108), xlim=(0.5, len(weeks) + 0.5))
    left.set_xticks([week + 1 for week in weeks])
    left.legend(loc="upper left", ncols=2, fontsize=7)
    left.set_title("Success, and the number of sessions")
    began = SHADOW_DAYS
    at = [began + one.sessions / A_DAY for one in report.points]
    low, high = [100 * one.low for one in report.points], [100 * one.high for one in report.points]
    right.axvspan(0, began, color=grey, alpha=0.15, linewidth=0)
    right.text(began / 2, 80, "shadow mode:\nnothing is said", ha="center", va="top", fontsize=8)
    right.fill_between(at, low, high, color=ink, alpha=0.18, linewidth=0)
    right.plot(at, [100 * one.value for one in report.points], color=ink)
    right.axhline(0, color=grey, linewidth=1)
    right.set(xlabel="day", ylabel="points more with memory", xlim=(0, DAYS), ylim=(-60, 90))
    right.set_title("Difference, with its interval of 95 %")
