"""What operations cost in memories of 1,000 to 1,000,000 synthetic runs, each in a process of its own.

usage: python benchmarks/growth.py [--runs 1000 10000 100000] [--folder FOLDER] [--part NAME]... [--docs docs]

Archives (see archive.py) and stores in FOLDER are made if they are missing, and used again. Results are kept there
too: a repeated call measures what is missing, or what `--part` names. Prints one JSON line a size. `--docs` writes the
table into tables/growth.md, between its marks, and growth.svg. A part that takes longer than `--limit-s`, or more
memory than `--memory-gib`, is ended and reported as such.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from archive import Archive, Shape, write
from growth_parts import PARTS as PROCESSES

Found = dict[str, Any]

HEPM = (sys.executable, "-m", "hepm")
QUESTION = ("--after", "{tool}", "--state", "the customer asks for the order of last week")
SHELL = {
    "shell-version": (3, ("--version",)),
    "shell-procedural": (3, ("suggest", *QUESTION, "--policy", "procedural", "--store", "{store}")),
    "shell-hybrid": (3, ("suggest", *QUESTION, "--policy", "hybrid", "--store", "{store}")),
    "stats": (3, ("stats", "--store", "{store}")),
    "view": (1, ("view", "{folder}/page.html", "--most", "200", "--store", "{store}")),
    "doctor": (1, ("doctor", "--store", "{store}")),
}
"""Commands by part, and how often they are run; the median counts."""

PARTS = (*PROCESSES, *SHELL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--tools", type=int, default=5000)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "hepm-growth")
    parser.add_argument("--part", action="append", choices=[part for part in PARTS if part != "ingest"])
    parser.add_argument("--limit-s", type=float, default=300)
    parser.add_argument("--memory-gib", type=float, default=8)
    parser.add_argument("--docs", type=Path)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    found: list[Found] = []
    for runs in sorted(arguments.runs):
        found.append(measure(runs, arguments))
        print(json.dumps(found[-1]), flush=True)
    if arguments.docs:
        from growth_page import write_page

        write_page(found, arguments.docs)


def measure(runs: int, arguments: argparse.Namespace) -> Found:
    """All results of a size; they are written down after each part."""
    archive, store, results = (arguments.folder / f"{label(runs)}.{end}" for end in ("jsonl", "hepm", "json"))
    found: Found = json.loads(results.read_text()) if results.exists() else {"runs": runs, "tools": arguments.tools}
    own = (sys.executable, str(Path(__file__).with_name("growth_parts.py")))
    for part in arguments.part or [part for part in PARTS if part not in found]:
        if part == "ingest":
            if store.exists():
                continue
            if not archive.exists():
                unfinished = archive.with_suffix(".unfinished")
                write(unfinished, Archive(arguments.tools).lines(runs))
                unfinished.rename(archive)
            unfinished = store.with_suffix(".unfinished")
            for old in arguments.folder.glob(f"{unfinished.name}*"):
                old.unlink()
            found[part] = limited((*own, part, str(runs), str(arguments.tools), str(archive), str(unfinished)))
            found[part]["cpu_us_a_run"] = 1e6 * found[part]["cpu_s"] / runs
            unfinished.rename(store)
        elif part in SHELL:
            times, command = SHELL[part]
            tool = Archive(arguments.tools).tools[Shape().common_tools]  # the first one of an environment
            filled = [text.format(store=store, folder=arguments.folder, tool=tool) for text in command]
            tries = [limited((*HEPM, *filled), arguments.limit_s, arguments.memory_gib) for _ in range(times)]
            found[part] = sorted(tries, key=lambda one: one.get("s", 0))[len(tries) // 2]
        else:
            command = (*own, part, str(runs), str(arguments.tools), str(archive), str(store))
            found[part] = limited(command, arguments.limit_s, arguments.memory_gib)
        results.write_text(json.dumps(found, indent=1))
    return found


def label(runs: int) -> str:
    """A number of runs as files are named by: 10k, 1m."""
    return next((f"{runs // unit}{name}" for unit, name in ((10**6, "m"), (10**3, "k")) if runs % unit == 0), str(runs))


def limited(command: tuple[str, ...], limit_s: float | None = None, memory_gib: float | None = None) -> Found:
    """Run a command: its seconds, its processor seconds, its peak MiB, and what it found; else why it "failed"."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        started = time.perf_counter()
        child = subprocess.Popen(command, stdout=output, stderr=errors, start_new_session=True)
        if memory_gib is not None:
            resource.prlimit(child.pid, resource.RLIMIT_DATA, (int(memory_gib * 2**30), resource.RLIM_INFINITY))
        timer = threading.Timer(limit_s or threading.TIMEOUT_MAX, os.killpg, (child.pid, signal.SIGKILL))
        timer.daemon = True
        timer.start()
        _, status, usage = os.wait4(child.pid, 0)
        late = timer.finished.is_set()
        timer.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
        found: Found = {"s": time.perf_counter() - started, "cpu_s": usage.ru_utime + usage.ru_stime}
        found["peak_mib"] = usage.ru_maxrss / 2**10
        output.seek(0)
        errors.seek(0)
        lines = errors.read().decode(errors="replace").splitlines()
        if late:
            return {"failed": f"not ended in {limit_s:g} s", **found}
        if child.returncode:
            return {"failed": lines[-1] if lines else f"exit {child.returncode}", **found}
        if "growth_parts.py" in command[1]:
            found |= json.loads(output.read())
        return found


if __name__ == "__main__":
    main()
