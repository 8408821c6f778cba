"""Recorded runs for the notebooks: your own, if HEPM_RUNS names them, else 800 public ones that pip fetches once."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGE = "bfcl-eval==2026.3.23"
"""The Berkeley Function Calling Leaderboard (Apache-2.0): 1.9 MB, unpacked and not installed."""


def bfcl() -> str:
    """The folder of the package, in `data` beside this file."""
    data = Path(__file__).parent / "data"
    folder = data / "bfcl"
    if not folder.exists():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(data), PACKAGE]
        subprocess.run(command, check=True)
        [wheel] = data.glob("bfcl_eval-*.whl")
        shutil.unpack_archive(wheel, data / "unfinished", "zip")
        (data / "unfinished").rename(folder)
    return str(folder)


def recorded_runs() -> str:
    """A file, folder, glob or archive, as `Memory.ingest` takes it."""
    return os.environ.get("HEPM_RUNS") or bfcl()
