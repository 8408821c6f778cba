"""Pictures of what was measured."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure


@contextmanager
def drawing(file: Path, title: str, *, size: tuple[float, float], panels: int = 1) -> Generator[Sequence[Any]]:
    """Axes side by side, of a figure of a size in inches that is written to a file at the end."""
    figure: Any = Figure(figsize=size, layout="constrained")
    figure.suptitle(title)
    yield [*figure.subplots(1, panels, squeeze=False)[0]]
    figure.savefig(file)
