"""What peers.py measures in the environment of one memory: python drive.py SIDE COMMAND FOLDER ENDPOINT RUNS.

Commands: write (stores runs one by one; prints the id of each that is kept), read (asks with the requests of runs),
held (after a kill), forget (one run). The last line is what was found, as JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from sides import Side

SIDES = {
    "hepm": ("in_hepm", "Hepm"),
    "hepm-embedder": ("in_hepm", "HepmWithEndpoint"),
    "mem0": ("in_mem0", "Mem0"),
    "graphiti": ("in_graphiti", "Graphiti"),
}

Found = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("side", choices=SIDES)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("endpoint")
    parser.add_argument("runs", type=Path)
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--most", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--spawned", type=float, default=0, help="when this process was started, by time.monotonic()")
    parser.add_argument("--forgotten", default="")
    parser.add_argument("--marker", default="")
    arguments = parser.parse_args()
    module, name = SIDES[arguments.side]
    side: Side = getattr(import_module(module), name)(arguments.folder, arguments.endpoint)
    found = COMMANDS[arguments.command](side, arguments)
    found["disk"] = sum(file.stat().st_size for file in arguments.folder.rglob("*") if file.is_file())
    side.close()
    print(json.dumps(found), flush=True)


def runs_of(arguments: argparse.Namespace) -> Iterator[Found]:
    with arguments.runs.open(encoding="utf-8") as lines:
        for line in islice(lines, arguments.skip, arguments.skip + arguments.most):
            yield json.loads(line)


def write(side: Side, arguments: argparse.Namespace) -> Found:
    times: list[float] = []
    cpu_s = time.process_time()
    until = time.perf_counter() + arguments.seconds
    for run in runs_of(arguments):
        started = time.perf_counter()
        kept = side.write(run)
        times.append(1e3 * (time.perf_counter() - started))
        if kept:
            print(run["id"], flush=True)
        if time.perf_counter() > until:
            break
    return {"write_ms": times, "cpu_s": time.process_time() - cpu_s}


def read(side: Side, arguments: argparse.Namespace) -> Found:
    times: list[float] = []
    first_s = None
    answers = 0
    until = float("inf")
    for run in runs_of(arguments):
        started = time.perf_counter()
        answers += side.read(run["request"])
        times.append(1e3 * (time.perf_counter() - started))
        if first_s is None:
            first_s = time.monotonic() - arguments.spawned
            until = time.perf_counter() + arguments.seconds
        if time.perf_counter() > until:
            break
    return {"start_s": first_s, "read_ms": times[1:], "answers": answers / max(1, len(times))}


def held(side: Side, arguments: argparse.Namespace) -> Found:
    del arguments
    return {"held": sorted(side.held()), "torn": side.torn()}


def forget(side: Side, arguments: argparse.Namespace) -> Found:
    before = side.rows_with(arguments.marker)
    started = time.perf_counter()
    side.forget(arguments.forgotten)
    took = 1e3 * (time.perf_counter() - started)
    return {"forget_ms": took, "rows_before": before, "rows_left": side.rows_with(arguments.marker)}


COMMANDS = {"write": write, "read": read, "held": held, "forget": forget}

if __name__ == "__main__":
    main()
