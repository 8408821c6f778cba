"""How `hepm ingest` grows with its workers: wall and CPU time of one and of two on the same archives, median of three.

usage: python benchmarks/count.py [ARCHIVE...] [--times 3]

First the CPU time of reading (R) and of storing (W) a run, and the most that workers can gain by it: on two cores,
which the process that stores shares, two are max(R, W) / ((R + W) / 2) times as fast as one, if reading takes longer;
with a core for each process, any number is max(R, W) / W times as fast as one. `--times 0` measures only these.

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

from hepm import Memory
from hepm.embed import HashingEmbedder
from hepm.ingest.prepare import IngestOptions
from hepm.ingest.records import ReadOptions
from hepm.ingest.workers.parallel import files_of
from hepm.ingest.workers.parts import Work, frames, plan

RUN = {"hepm": 1, "id": "a", "success": True, "turns": [{"role": "assistant", "calls": [{"name": "look"}]}]}


def count(archives: list[str], workers: int, folder: Path) -> tuple[float, float]:
    """Seconds that one command takes: by the clock, and of processors by it and the children that it waited for."""
    store = folder / "runs.hepm"
    command = [sys.executable, "-m", "hepm", "ingest", *archives, "--store", str(store)]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([*command, "--processes", str(workers)], check=True, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    for left in folder.glob("runs.hepm*"):
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def costs(archives: list[str], folder: Path) -> tuple[float, float, int]:
    """Seconds of processors that reading the archives takes, as a worker does it, and storing them; how many runs."""
    work = Work(ReadOptions(), IngestOptions(), HashingEmbedder().name)
    files = [str(file) for file in files_of(archives) or ()]
    began = time.process_time()
    for part in plan(files, work.reading):
        for _ in frames(part, work):
            pass
    reading = time.process_time() - began
    with Memory.open(folder / "costs.hepm") as memory:
        began = time.process_time()  # without that of its children
        report = memory.ingest(archives, options=IngestOptions(processes=2))
        return reading, time.process_time() - began, report.read


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    recorded = os.environ.get("HEPM_RECORDED_RUNS", str(Path(__file__).parents[2] / "shared" / "data"))
    parser.add_argument("archives", nargs="*", default=[recorded])
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as name:
        reading, storing, runs = costs(given.archives, Path(name))
        print(f"{runs:,} runs, of which 1,000 take {1000 * reading / runs:.2f} s of processors to read (R)", end=" ")
        print(f"and {1000 * storing / runs:.2f} s to store (W)")
        longer, both = max(reading, storing), reading + storing
        print(
            f"two workers on two cores are at most {longer / max(storing, both / 2):.2f} times as fast as one,", end=" "
        )
        print(f"and any number on more cores at most {longer / storing:.2f} times")
        if not given.times:
            return
        small = Path(name) / "small.jsonl"
        small.write_text(json.dumps(RUN))
        seconds: dict[int, float] = {}
        for workers in (1, 2):
            start, _ = count([str(small)], workers, Path(name))
            found = [count(given.archives, workers, Path(name)) for _ in range(given.times)]
            wall, cpu = (statistics.median(column) for column in zip(*found, strict=True))
            seconds[workers] = wall
            print(f"{workers} workers: {wall:.1f} s ({start:.1f} s of it to start), {cpu:.1f} s of processors")
        print(f"two are {seconds[1] / seconds[2]:.2f} times as fast as one")


if __name__ == "__main__":
    main()
