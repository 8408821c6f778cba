"""Many processes that follow one memory while another writes: how late they see a run, what they read and compute.

python benchmarks/followers.py [--store STORE] [--processes 50] [--hybrid]

The store is a file or the address of a server or of a cluster (neo4j://HOST), logged in to as always; without one a
temporary file. The runs go into a namespace of their own. Each process asks for an edge every 50 ms, and with --hybrid
once a second for suggestions; the writer stores RATE runs a second for SECONDS. Prints one JSON line: from commit to
visible in ms over all runs and processes, and for each process at rest and under writes its share of a core, statements
and kB read a second. The baseline is `whole_kb`, what a process reads that loads the namespace anew.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import numpy as np

from hepm import Memory, Outcome, ToolCall, Trajectory, Turn
from hepm.graph.neo4j.connection import Connection
from hepm.graph.sqlite import SQLiteStore

NAMESPACE = f"followers {int(time.time())}"
ASK_S = 0.05
SUGGEST_S = 1.0
REST_S = 5.0
TOOLS = 200
WEIGHTS = [1 / rank for rank in range(1, TOOLS + 1)]


def runs(kind: str) -> Iterator[Trajectory]:
    """Runs of ten steps; the second tool of each is its own, so that the edge to it tells that the run is known."""
    draw, number = random.Random(kind), 0
    while True:
        tools = [f"tool_{t}" for t in draw.choices(range(TOOLS), WEIGHTS, k=10)]
        names = ["enter", f"{kind}_{number}" if kind == "mark" else tools[0], *tools[2:]]
        calls = [Turn("assistant", "", (ToolCall(name, result="done", error=False),)) for name in names]
        said = Turn("user", f"please see to the request {'abcdefghij'[draw.randrange(10)]}")
        yield Trajectory(f"{kind}-{number}", (said, *calls), Outcome(1.0, draw.random() < 0.6), environment="shop")
        number += 1


class Reads:
    """Counts the statements of this process that read, and the kB of their rows."""

    def __init__(self) -> None:
        self.found: Counter[str] = Counter()
        for owner in (SQLiteStore, Connection):
            owner.read = self._counting(owner.read)  # type: ignore[method-assign]

    def _counting(self, read: Callable[..., list[tuple[Any, ...]]]) -> Any:
        def counted(owner: Any, *names: Any, **values: Any) -> list[tuple[Any, ...]]:
            rows = read(owner, *names, **values)
            heavy = sum(len(value) if isinstance(value, str | bytes) else 8 for row in rows for value in row)
            self.found.update(statements=1, kb=heavy / 1e3)  # type: ignore[arg-type]
            return rows

        return counted

    def since(self, before: Counter[str], seconds: float) -> dict[str, float]:
        """Per second."""
        return {name: (self.found[name] - before[name]) / seconds for name in ("statements", "kb")}


def follow(given: argparse.Namespace, namespace: str, barrier: Barrier, answers: Any) -> None:
    """One follower: it rests, then notes when it sees each of the writer's runs."""
    reads = Reads()
    seen: list[float] = []
    with Memory.open(given.store) as memory:
        memory.mirror(namespace)
        suggest(memory, namespace, given.hybrid)
        whole_kb = reads.found["kb"]
        barrier.wait()
        at_rest = watched(memory, namespace, given, reads, seen, REST_S)
        barrier.wait()
        under_writes = watched(memory, namespace, given, reads, seen, given.seconds + 5)
    answers.put({"seen": seen, "whole_kb": whole_kb, "at_rest": at_rest, "under_writes": under_writes})


def suggest(memory: Memory, namespace: str, hybrid: bool) -> None:
    if hybrid:
        memory.suggest("enter", state="please see to the request c", namespace=namespace)


def watched(
    memory: Memory, namespace: str, given: argparse.Namespace, reads: Reads, seen: list[float], seconds: float
) -> dict[str, float]:
    """What some seconds of asking cost a second; `seen` gets the time at which each next run was visible."""
    began, spent, before = time.monotonic(), time.process_time(), reads.found.copy()
    suggest_at = began
    while time.monotonic() < began + seconds:
        mirror = memory.mirror(namespace)
        while mirror.edge("enter", f"mark_{len(seen)}") is not None:
            seen.append(time.time())
        if given.hybrid and time.monotonic() > suggest_at:
            suggest(memory, namespace, hybrid=True)
            suggest_at += SUGGEST_S
        time.sleep(ASK_S)
    lasted = time.monotonic() - began
    return {"cpu": (time.process_time() - spent) / lasted, **reads.since(before, lasted)}


def write(given: argparse.Namespace, namespace: str) -> list[float]:
    """Store runs one by one; when each was committed."""
    committed: list[float] = []
    with Memory.open(given.store) as memory:
        began = time.monotonic()
        for number, run in enumerate(islice(runs("mark"), int(given.seconds * given.rate))):
            time.sleep(max(0.0, began + number / given.rate - time.monotonic()))
            if time.monotonic() > began + given.seconds:
                break
            memory.ingest(run, namespace=namespace)
            committed.append(time.time())
    return committed


def summary(committed: list[float], answers: list[dict[str, Any]]) -> dict[str, object]:
    """Delays over all followers and runs, and the mean follower."""
    lost = sum(len(committed) - len(answer["seen"]) for answer in answers)
    delays = [1e3 * (at - was) for one in answers for at, was in zip(one["seen"], committed, strict=False)]
    found: dict[str, object] = {"runs": len(committed), "not_seen": lost}
    if delays:
        median, p95 = np.percentile(delays, [50, 95])
        found["delay_ms"] = {"median": round(median), "p95": round(p95), "max": round(max(delays))}
    for phase in ("at_rest", "under_writes"):
        found[phase] = {name: round(float(np.mean([a[phase][name] for a in answers])), 4) for name in answers[0][phase]}
    return found | {"whole_kb": round(float(np.mean([a["whole_kb"] for a in answers])), 1)}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--store", default=os.environ.get("HEPM_STORE"))
    options.add_argument("--processes", type=int, default=50)
    options.add_argument("--held", type=int, default=1_000, help="runs that are stored before")
    options.add_argument("--rate", type=float, default=5.0, help="runs a second")
    options.add_argument("--seconds", type=float, default=20.0)
    options.add_argument("--hybrid", action="store_true", help="followers also ask for suggestions")
    given = options.parse_args()
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        given.store = given.store or str(Path(folder, "memory.hepm"))
        with Memory.open(given.store) as memory:
            memory.ingest(islice(runs("held"), given.held), namespace=NAMESPACE)
        barrier, queue = context.Barrier(given.processes + 1), context.Queue()
        followers = [
            context.Process(target=follow, args=(given, NAMESPACE, barrier, queue)) for _ in range(given.processes)
        ]
        for one in followers:
            one.start()
        barrier.wait()
        barrier.wait()
        committed = write(given, NAMESPACE)
        answers = [queue.get(timeout=120) for _ in followers]
        for one in followers:
            one.join()
        server = "file" if "://" not in given.store else "server"
        about = {"store": server, "processes": given.processes, "held": given.held, "hybrid": given.hybrid}
        print(json.dumps(about | summary(committed, answers)))
        if server == "server":
            with Memory.open(given.store) as memory:
                memory.forget(environment="shop", namespace=NAMESPACE)


if __name__ == "__main__":
    main()
