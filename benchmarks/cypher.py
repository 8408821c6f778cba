"""Cypher without a server beside Cypher on one: building the copy, and the same questions on both.

usage: python benchmarks/cypher.py [--tools 5000] [--edges 200000]

Prints one JSON line a part: `build` (a store of so many edges, from opening to the first answer), `reopen` (the copy is
there), and one for each question, on the embedded engine and on the Neo4j server that NEO4J_URI names, else one that is
started for this: `server` as `hepm cypher` asks it, `driver` by a bare `execute_query`. Each question is asked
twice: as hepm's store in Neo4j is made, and with an index on (namespace, name) besides, the best that a server can do.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import neo4j
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from hepm.cypher import question
from hepm.cypher.engines import ask_server
from hepm.graph.neo4j_local import LocalServer
from hepm.graph.projection.copy import open_copy
from hepm.graph.projection.tables import ModelTables
from hepm.graph.sqlite import SQLiteStore
from tests.cypher.engines import load_server

SEED = 7
NAMESPACE = "benchmark-cypher"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tools", type=int, default=5000)
    parser.add_argument("--edges", type=int, default=200_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "big.hepm"
        big_store(file, arguments)
        store = SQLiteStore(file)
        started = time.perf_counter()
        copy = open_copy(store, file, lambda records: ([], {}))
        copy.ask("MATCH (:Tool)-[r:NEXT]->(:Tool) RETURN count(r)", {})
        report("build", edges=arguments.edges, tools=arguments.tools, seconds=round(time.perf_counter() - started, 2))
        copy.close()
        started = time.perf_counter()
        copy = open_copy(store, file, lambda records: ([], {}))
        report("reopen", seconds=round(time.perf_counter() - started, 3))
        with copy, server() as (driver, database):
            load_server(
                driver, database, [(n, list(r)) for n, r in ModelTables(store, lambda records: ([], {})).tables()]
            )
            compare(copy, driver, database, arguments, index=False)
            index = "CREATE INDEX benchmark IF NOT EXISTS FOR (t:Tool) ON (t.namespace, t.name)"
            driver.execute_query(index, database_=database)
            driver.execute_query("CALL db.awaitIndexes(300)", database_=database)
            compare(copy, driver, database, arguments, index=True)
            driver.execute_query("DROP INDEX benchmark", database_=database)
            with driver.session(database=database) as session:  # at once it would need more memory than a server has
                text = "MATCH (t:Tool {namespace: $n}) CALL (t) { DETACH DELETE t } IN TRANSACTIONS OF 100 ROWS"
                session.run(text, n=NAMESPACE).consume()
        store.close()


def compare(copy: Any, driver: neo4j.Driver, database: str, arguments: argparse.Namespace, *, index: bool) -> None:
    """The same questions with the same values on both: as `hepm cypher` asks the server, and by the bare driver."""
    random = np.random.default_rng(SEED)
    tools = [f"tool_{number:05d}" for number in random.integers(0, arguments.tools, 200)]
    for name, repeats in (("strongest_next_tools", 200), ("two_steps_ahead", 50), ("where_runs_part", 5)):
        asked = question(name)
        given = [{"namespace": NAMESPACE, "tool": tool} for tool in tools]
        needs = {parameter.name for parameter in asked.parameters}
        values = [asked.values({key: one[key] for key in one.keys() & needs}) for one in given]
        text = asked.text
        engines: dict[str, Callable[[dict[str, Any]], object]] = {
            "embedded": lambda one, text=asked.embedded: copy.ask(text, one).rows,
            "server": lambda one, text=text: ask_server(driver, database, text, one).rows,
            "driver": lambda one, text=text: driver.execute_query(text, one, database_=database, routing_="r").records,
        }
        figures = {which: millis(engine, values, repeats) for which, engine in engines.items()}
        report(name, index=index, rows=len(copy.ask(asked.embedded, values[0]).rows), **figures)


def millis(
    function: Callable[[dict[str, Any]], object], values: list[dict[str, Any]], repeats: int
) -> dict[str, float]:
    """Median and 95th percentile in milliseconds, after a warm-up."""
    for number in range(min(repeats, 100)):
        function(values[number])
    times: list[float] = []
    for number in range(repeats):
        started = time.perf_counter()
        function(values[number])
        times.append(1e3 * (time.perf_counter() - started))
    return {"median_ms": round(statistics.median(times), 2), "p95_ms": round(float(np.percentile(times, 95)), 2)}


def big_store(file: Path, arguments: argparse.Namespace) -> None:
    """Tools and edges written straight into the tables: what many runs would leave behind."""
    SQLiteStore(file).close()
    import sqlite3

    random = np.random.default_rng(SEED)
    names = [f"tool_{number:05d}" for number in range(arguments.tools)]
    popular = np.arange(1, arguments.tools + 1) ** -0.6
    per_tool = arguments.edges // arguments.tools
    with sqlite3.connect(file) as database:
        tools = [(NAMESPACE, name) for name in names]
        database.executemany(
            "INSERT INTO tool (namespace, name, description, parameters, calls, errors) VALUES (?, ?, '', '{}', 9, 0)",
            tools,
        )
        for name in names:
            targets = random.choice(arguments.tools, per_tool, replace=False, p=popular / popular.sum())
            support = random.integers(1, 100, per_tool)
            rows = [
                (NAMESPACE, name, names[target], int(n), int(n) << 29, int(n) // 3, 0)
                for target, n in zip(targets, support, strict=True)
            ]
            database.executemany("INSERT INTO edge VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    database.close()


@contextmanager
def server() -> Iterator[tuple[neo4j.Driver, str]]:
    """The server that NEO4J_URI names, else one of our own."""
    if uri := os.environ.get("NEO4J_URI"):
        login = (os.environ.get("NEO4J_USERNAME", "neo4j"), os.environ.get("NEO4J_PASSWORD", ""))
        with neo4j.GraphDatabase.driver(uri, auth=login, notifications_min_severity="OFF") as driver:
            yield driver, os.environ.get("NEO4J_DATABASE", "neo4j")
        return
    with tempfile.TemporaryDirectory() as folder:
        local = LocalServer(Path(folder), "5.26", say=lambda text: print(text, file=sys.stderr))
        local.start(timeout_s=240)
        try:
            status = local.status()
            assert status.uri is not None
            login = (status.username, local.password)
            with neo4j.GraphDatabase.driver(status.uri, auth=login, notifications_min_severity="OFF") as driver:
                yield driver, "neo4j"
        finally:
            local.stop()


def report(part: str, **found: object) -> None:
    about = {"part": part, "machine": f"{platform.machine()}, {os.cpu_count()} cores", "python": sys.version[:6]}
    print(json.dumps(about | found), flush=True)


if __name__ == "__main__":
    main()
