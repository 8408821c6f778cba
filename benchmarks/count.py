"""How `hepm count` grows with its workers: wall and CPU time of one and of two on the same archives, median of three.

usage: python benchmarks/count.py [ARCHIVE...] [--engine ray] [--times 3]

The processes' own start is timed apart, by counting one small file first. ARCHIVE is $HEPM_RECORDED_RUNS, else
../shared/data. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUN = {"hepm": 1, "id": "a", "success": True, "turns": [{"role": "assistant", "calls": [{"name": "look"}]}]}


def count(archives: list[str], engine: str, workers: int, folder: Path) -> tuple[float, float]:
    """Seconds that one command takes: by the clock, and of processors by it and the children that it waited for."""
    store = folder / "runs.hepm"
    command = [sys.executable, "-m", "hepm", "count", *archives, "--to", str(store), "--engine", engine]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([*command, "--processes", str(workers)], check=True, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    for left in folder.glob("runs.hepm*"):
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    recorded = os.environ.get("HEPM_RECORDED_RUNS", str(Path(__file__).parents[2] / "shared" / "data"))
    parser.add_argument("archives", nargs="*", default=[recorded])
    parser.add_argument("--engine", default="ray")
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as name:
        small = Path(name) / "small.jsonl"
        small.write_text(json.dumps(RUN))
        seconds: dict[int, float] = {}
        for workers in (1, 2):
            start, _ = count([str(small)], given.engine, workers, Path(name))
            found = [count(given.archives, given.engine, workers, Path(name)) for _ in range(given.times)]
            wall, cpu = (statistics.median(column) for column in zip(*found, strict=True))
            seconds[workers] = wall
            print(f"{workers} workers: {wall:.1f} s ({start:.1f} s of it to start), {cpu:.1f} s of processors")
        print(f"two are {seconds[1] / seconds[2]:.2f} times as fast as one")


if __name__ == "__main__":
    main()
