"""What one change costs in a small and in a large memory on a server: one run more, a new label, one run forgotten.

eval "$(hepm neo4j env)"; python benchmarks/server_growth.py [--bulk 100000]

The runs go into a namespace of their own: some hundred are ingested, of 200 tools drawn by Zipf's law with ten steps
each, and the server then adds the rest itself on the same edges. Prints one JSON line a size: of each change the median
of its milliseconds and of its accesses to the database ("hits" of PROFILE, which another load does not change), and the
statements with the most of them. The small memory is the baseline: a change should cost the same in both.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import count, islice
from pathlib import Path
from statistics import median
from typing import Any

import neo4j

from hepm import Memory, Outcome, ToolCall, Trajectory, Turn
from hepm.cypher import statement
from hepm.graph.neo4j.connection import Sender
from hepm.graph.neo4j.login import Login

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.neo4j.bulk import add_bulk

TOOLS = 200
STEPS = 10
REQUESTS = 2_000
NAMESPACE = "server growth"
WEIGHTS = [1 / rank for rank in range(1, TOOLS + 1)]


def runs(first: int) -> Iterator[Trajectory]:
    """Runs by number, each the same in every call."""
    for number in count(first):
        draw = random.Random(number)
        tools = draw.choices(range(TOOLS), WEIGHTS, k=STEPS)
        request = draw.randrange(REQUESTS)
        calls = [Turn("assistant", "", (ToolCall(f"tool_{t}", result="done", error=False),)) for t in tools]
        said = Turn("user", f"please see to request {'abcdefghij'[request % 10]} of the customer {request}")
        success = draw.random() < 0.6
        outcome = Outcome(float(success), success)
        yield Trajectory(f"run-{number}", (said, *calls), outcome, environment="shop", task=f"task {request}")


class Meter:
    """Counts what the statements of write transactions read in the database, besides the time."""

    def __init__(self) -> None:
        self.hits: Counter[str] = Counter()
        self._send = Sender.send
        meter = self

        def send(sender: Any, name: str, /, **values: object) -> Any:
            result = sender._tx.run("PROFILE " + statement(name), values)
            rows, plan = list(result), result.consume().profile
            meter.hits[name] += hits_of(plan)
            return rows

        Sender.send = send  # type: ignore[method-assign]

    def close(self) -> None:
        Sender.send = self._send  # type: ignore[method-assign]


def hits_of(plan: Any) -> int:
    """Accesses to the database of a profiled plan, in all its operators."""
    own = plan.get("dbHits", plan.get("args", {}).get("DbHits", 0))
    return own + sum(map(hits_of, plan.get("children", ())))


def changes(memory: Memory, fresh: Trajectory, old: str) -> Iterator[tuple[str, Callable[[], object]]]:
    """Every change by name. Together they leave the memory as it was."""
    success = not fresh.outcome.success
    kept = memory.run(old, namespace=NAMESPACE)
    yield "one run more", lambda: memory.ingest(fresh, namespace=NAMESPACE)
    yield "label", lambda: memory.label(fresh.id, success=success, namespace=NAMESPACE)
    yield "forget", lambda: memory.forget(trajectory=fresh.id, namespace=NAMESPACE)
    yield "forget an old run", lambda: memory.forget(trajectory=old, namespace=NAMESPACE)
    yield "", lambda: memory.ingest(kept, namespace=NAMESPACE)


def measured(memory: Memory, repeats: int) -> dict[str, object]:
    """Of each change the median of its milliseconds, and of the accesses to the database with the dearest statement."""
    fresh = list(islice(runs(10_000_000), repeats))
    times, hits, dearest = defaultdict[str, list[float]](list), defaultdict[str, list[int]](list), {}
    for profiled in (False, True):
        for number, one in enumerate(fresh):
            for name, change in changes(memory, one, f"run-{3 * number}"):
                meter = Meter() if profiled else None
                began = time.perf_counter()
                change()
                if meter is None:
                    times[name].append(1e3 * (time.perf_counter() - began))
                    continue
                meter.close()
                hits[name].append(meter.hits.total())
                dearest[name] = dict(meter.hits.most_common(3))
    return {
        name: {"ms": round(median(times[name]), 1), "hits": median(hits[name]), "last": dearest[name]}
        for name in times
        if name
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--real", type=int, default=500, help="runs that are ingested")
    options.add_argument("--bulk", type=int, default=100_000, help="runs that are added by the server itself")
    options.add_argument("--repeats", type=int, default=10)
    given = options.parse_args()
    login = Login.from_environment(os.environ["NEO4J_URI"])
    with (
        Memory.open(login.uri) as memory,
        neo4j.GraphDatabase.driver(login.uri, auth=(login.username, login.password)) as driver,
        driver.session(database=login.database) as session,
    ):
        for bulk in (0, given.bulk):
            held = memory.totals(namespace=NAMESPACE).trajectories
            memory.ingest(islice(runs(0), max(0, given.real - held)), namespace=NAMESPACE)
            if bulk and held < bulk:
                add_bulk(session, namespace=NAMESPACE, runs=bulk)
            size = memory.totals(namespace=NAMESPACE).trajectories
            print(json.dumps({"runs": size, **measured(memory, given.repeats)}), flush=True)


if __name__ == "__main__":
    main()
