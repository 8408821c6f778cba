"""Recorded runs for the notebooks: your own, if HEPM_RUNS names them, else 800 public ones that pip fetches once."""

import os
import subprocess
import sys
from pathlib import Path

PACKAGE = "bfcl-eval==2026.3.23"
"""The Berkeley Function Calling Leaderboard (Apache-2.0): 1.9 MB, read as a zip and not installed."""


def bfcl() -> str:
    """The path of the wheel, in `data` beside this file."""
    folder = Path(__file__).parent / "data"
    if not (found := sorted(folder.glob("bfcl_eval-*.whl"))):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), PACKAGE]
        subprocess.run(command, check=True)
        found = sorted(folder.glob("bfcl_eval-*.whl"))
    return str(found[0])


def recorded_runs() -> str:
    """A file, folder, glob or archive, as `Memory.ingest` takes it."""
    return os.environ.get("HEPM_RUNS") or bfcl()
