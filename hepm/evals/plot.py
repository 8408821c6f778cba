"""A report as a plot: hit@2 per method with its interval, one panel per domain and one for the mean."""

# pyright: reportUnknownMemberType=false
# matplotlib leaves its **kwargs untyped, which makes nearly every method of it "partially unknown".

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np

from hepm.atomic_file import atomic_file, check_output_path
from hepm.errors import InputError, MissingExtraError
from hepm.evals.report import EvalReport

_COLUMNS = 3
_KINDS = (".png", ".svg", ".pdf")


def check_plot(path: Path) -> None:
    """Refuse before the evaluation what would fail after it.

    Raises:
        InputError: the name ends in no kind of plot, or nothing can be written there.
        MissingExtraError: matplotlib is not installed.
    """
    if path.suffix.lower() not in _KINDS:
        raise InputError(f"a plot is written as {', '.join(_KINDS)}; {path.name!r} is none of these")
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {str(path.parent)!r} to write the plot to")
    if find_spec("matplotlib") is None:
        raise MissingExtraError("a plot needs matplotlib: pip install 'hepm[plot]'")
    check_output_path(path, "the plot")


def plot(report: EvalReport, path: Path) -> None:
    """Write the plot in the format of the ending of `path`. An error leaves an existing file as it was."""
    from matplotlib.figure import Figure

    panels = {f"{name} ({domain.events:,} calls)": domain.methods for name, domain in report.domains.items()}
    if len(panels) > 1:
        panels = {"mean over domains": report.macro} | panels
    columns = min(len(panels), _COLUMNS)
    rows = -(-len(panels) // columns)
    height = 0.22 * len(report.macro) + 0.8
    figure = Figure(figsize=(3.2 * columns + 1.6, height * rows + 0.4), layout="constrained")
    for number, (title, methods) in enumerate(panels.items()):
        axes = figure.add_subplot(rows, columns, number + 1)
        names = [*methods][::-1]
        hits = np.array([(methods[name].values["hit@2"], *methods[name].interval["hit@2"]) for name in names]).T
        # A percentile interval may lie apart from its mean; an error bar may not reach backwards.
        errors = np.maximum([hits[0] - hits[1], hits[2] - hits[0]], 0)
        axes.errorbar(hits[0], range(len(names)), xerr=errors, fmt="o", markersize=4, linewidth=1)
        axes.set_yticks([*range(len(names))], labels=names if number % columns == 0 else [""] * len(names), fontsize=8)
        axes.set_title(title, fontsize=9)
        axes.set_xlim(0, 1)
        axes.grid(axis="x", alpha=0.3)
    figure.suptitle("hit@2, 95 % intervals over task families")
    with atomic_file(path, "the plot") as file:
        figure.savefig(file, format=path.suffix[1:].lower())
