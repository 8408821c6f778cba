"""What most scripts need: the recorded runs they measure, and where and on what they measured."""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
from pathlib import Path

from hepm.ingest import Rejection, read_runs
from hepm.types import Trajectory


def options(description: str | None, *, recorded: bool = True) -> argparse.ArgumentParser:
    """A parser; with `recorded` its first argument is the folder of recorded runs."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    if recorded:
        default = Path(os.environ.get("HEPM_RECORDED_RUNS", "../shared/data"))
        parser.add_argument("runs", nargs="?", type=Path, default=default)
    return parser


def read_records(folder: Path) -> list[tuple[str, Trajectory]]:
    """Each recorded run with the name of its format; what cannot be read is left out."""
    return [(name, run) for name, run in read_runs([folder]) if not isinstance(run, Rejection)]


def about(benchmark: str) -> dict[str, str]:
    """Which measurement it is, of which commit, and where."""
    asked = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    return {"benchmark": benchmark, "commit": asked.stdout.strip() or "unknown", "machine": machine}


def spanned(mean: float, low: float, high: float) -> str:
    """A signed value with its interval."""
    return f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]"
