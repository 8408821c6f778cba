"""Pictures of what was measured; matplotlib draws them, which no extra installs."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from hepm.errors import InputError, MissingExtraError
from hepm.uplift.saying import PlotPoint
from hepm.uplift.sequence import Effect

_COLOURS: Final = {1: "#2e8b57", 0: "#7d8b99", -1: "#c0492b"}  # by `Effect.sure`: helps, unknown, harms
_MEMORY: Final = "#6a3fb5"
_MOST_POINTS: Final = 60  # of a hundred: wider intervals are cut


def draw_effects(file: Path, title: str, effects: Mapping[str, Effect | None]) -> None:
    """Draw differences of shares with their intervals, one below the other; see `drawing`."""
    with drawing(file, title, size=(6.5, 1.2 + 0.4 * len(effects))) as [axes]:
        for row, effect in enumerate(effects.values()):
            if effect is not None:
                colour = _COLOURS[effect.sure]
                axes.plot([100 * effect.low, 100 * effect.high], [row, row], color=colour)
                axes.plot([100 * effect.value], [row], "o", color=colour)
        axes.set_yticks(range(len(effects)), list(effects))
        axes.set_ylim(len(effects) - 0.5, -0.5)  # the first effect on top
        # No difference.
        axes.axvline(0, color=_COLOURS[0], linewidth=1)
        axes.set_xlabel("points of success more with memory, with 95 % intervals")


def draw_path(file: Path, title: str, points: Sequence[PlotPoint]) -> None:
    """Draw how a difference of shares became known, session by session; see `drawing`."""
    with drawing(file, title, size=(7.5, 3.2)) as [axes]:
        sessions: list[int] = []
        values: list[float] = []
        lows: list[float] = []
        highs: list[float] = []
        for point in points:
            sessions.append(point.sessions)
            values.append(100 * point.value)  # from shares to points
            lows.append(100 * point.low)
            highs.append(100 * point.high)
        axes.fill_between(sessions, lows, highs, color=_MEMORY, alpha=0.18, linewidth=0)
        axes.plot(sessions, values, color=_MEMORY)
        axes.axhline(0, color=_COLOURS[0], linewidth=1)
        axes.set_ylim(-_MOST_POINTS, _MOST_POINTS)
        axes.set_xlabel("sessions with an outcome")
        axes.set_ylabel("points of success\nmore with memory")


@contextmanager
def drawing(file: Path, title: str, *, size: tuple[float, float], panels: int = 1) -> Generator[Sequence[Any]]:
    """Axes side by side, of a figure of a size in inches that is written to a file at the end.

    Raises:
        MissingExtraError: matplotlib is not installed.
        InputError: the file cannot be written, or has an ending of no picture.
    """
    if find_spec("matplotlib") is None:
        raise MissingExtraError("a plot needs matplotlib: pip install matplotlib.")
    from matplotlib.figure import Figure  # not pyplot: its global state and windows are not a library's business

    figure: Any = Figure(figsize=size, layout="constrained")
    figure.suptitle(title)
    yield [*figure.subplots(1, panels, squeeze=False)[0]]
    # After the caller has drawn: an exception of theirs leaves no half-drawn file.
    try:
        figure.savefig(file)
    except (OSError, ValueError) as error:
        raise InputError(f"the plot cannot be written to {file}: {error}.") from error
