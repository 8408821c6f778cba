"""The memory in Neo4j against a plain driver script: writing, and cold opening.

eval "$(hepm neo4j env)"; python benchmarks/server.py [RUNS] [--part write|open]

It starts a server of its own where NEO4J_URI names none, and empties the database that it is given. Prints one JSON
line a part; both sides run in turns in one process, on a server that is warm. The baseline of a write is a script that
sends the same nodes and relationships by plain UNWIND, as many a transaction, counted beforehand; ours counts, hashes
names, takes the lock, merges states, keeps the bound, weighs edges and writes the journal on top.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeAlias

import neo4j
import numpy as np
from parts.measured import about, options

from hepm import Memory
from hepm.embed import HashingEmbedder
from hepm.graph.delta import RunRecord
from hepm.graph.neo4j.login import Login
from hepm.graph.neo4j.store import Neo4jStore, Neo4jTransaction
from hepm.graph.neo4j_local import LocalServer
from hepm.graph.stored_vectors import to_bytes
from hepm.ingest import ReadOptions
from hepm.ingest.pipeline import embed_texts, replay_with
from hepm.ingest.prepare import IngestOptions, prepare

SEED = 7
BATCH = 500
EMBEDDER = HashingEmbedder()

PLAIN = {
    "add_tools": """
        UNWIND $rows AS row MERGE (t:PlainTool {uid: row.uid})
        ON CREATE SET t.name = row.name, t.calls = row.calls, t.errors = row.errors,
                      t.description = row.description, t.parameters = row.parameters
        ON MATCH SET t.calls = t.calls + row.calls, t.errors = t.errors + row.errors""",
    "add_runs": "UNWIND $rows AS row CREATE (t:PlainRun) SET t = row",
    "add_edges": """
        UNWIND $rows AS row MATCH (a:PlainTool {uid: row.source}) MATCH (b:PlainTool {uid: row.target})
        MERGE (a)-[r:PLAIN_NEXT]->(b)
        ON CREATE SET r.support = row.support, r.inverse_steps = row.inverse_steps, r.failures = row.failures,
                      r.unlabelled = row.unlabelled
        ON MATCH SET r.support = r.support + row.support, r.inverse_steps = r.inverse_steps + row.inverse_steps,
                     r.failures = r.failures + row.failures, r.unlabelled = r.unlabelled + row.unlabelled""",
    "add_run_edges": """
        UNWIND $rows AS row MATCH (t:PlainRun {uid: row.run}) MATCH (b:PlainTool {uid: row.target})
        CREATE (t)-[:PLAIN_TOOK {after: row.after, edge: row.edge, seq: row.seq}]->(b)""",
    "add_states": """
        UNWIND $rows AS row MERGE (s:PlainState {uid: row.uid})
        ON CREATE SET s = row
        ON MATCH SET s.count = s.count + row.count, s.summary = row.summary, s.seen = row.seen, s.step = row.step,
                     s.trajectory = row.trajectory, s.embedding = row.embedding, s.vector = row.vector""",
    "link_after": """
        UNWIND $rows AS row MATCH (s:PlainState {uid: row.state}) MATCH (t:PlainTool {uid: row.tool})
        CREATE (s)-[:PLAIN_AFTER]->(t)""",
    "link_before": """
        UNWIND $rows AS row MATCH (s:PlainState {uid: row.state}) MATCH (t:PlainTool {uid: row.tool})
        CREATE (s)-[:PLAIN_BEFORE]->(t)""",
}
PLAIN_SCHEMA = (
    "CREATE CONSTRAINT plain_tool IF NOT EXISTS FOR (n:PlainTool) REQUIRE n.uid IS UNIQUE",
    "CREATE CONSTRAINT plain_run IF NOT EXISTS FOR (n:PlainRun) REQUIRE n.uid IS UNIQUE",
    "CREATE CONSTRAINT plain_state IF NOT EXISTS FOR (n:PlainState) REQUIRE n.uid IS UNIQUE",
    """CREATE VECTOR INDEX plain_embedding IF NOT EXISTS FOR (s:PlainState) ON (s.embedding) OPTIONS
       {indexConfig: {`vector.dimensions`: 512, `vector.similarity_function`: 'cosine'}}""",
)

Sent: TypeAlias = list[tuple[str, list[dict[str, Any]]]]
"""The rows of one transaction, by statement, in the order in which they were sent."""


class Server:
    """A server and its plain driver."""

    def __init__(self, login: Login) -> None:
        self.login = login
        self.driver = neo4j.GraphDatabase.driver(login.uri, auth=(login.username, login.password))

    def run(self, text: str, **values: Any) -> list[Any]:
        return self.driver.execute_query(text, values, database_=self.login.database).records  # type: ignore[arg-type]

    def empty(self) -> None:
        with self.driver.session(database=self.login.database) as session:
            session.run("MATCH (n) CALL (n) { DETACH DELETE n } IN TRANSACTIONS OF 500 ROWS").consume()

    def store(self) -> Neo4jStore:
        store = Neo4jStore(self.login)
        store.set_embedder(EMBEDDER.name, EMBEDDER.dimensions)
        return store


@contextmanager
def server() -> Iterator[Server]:
    if uri := os.environ.get("NEO4J_URI"):
        yield Server(Login(uri, os.environ.get("NEO4J_USERNAME", "neo4j"), os.environ.get("NEO4J_PASSWORD", "")))
        return
    with tempfile.TemporaryDirectory() as folder:
        local = LocalServer(Path(folder), say=lambda line: print(line, file=sys.stderr))
        local.start()
        try:
            status = local.status()
            assert status.uri is not None
            yield Server(Login(status.uri, status.username, local.password))
        finally:
            local.stop()


def recorded(folder: Path, count: int) -> list[RunRecord]:
    runs: list[RunRecord] = []
    for _, item in prepare([str(folder)], ReadOptions(), IngestOptions()):
        if isinstance(item, RunRecord) and item.transitions:
            runs.append(item)
        if len(runs) == count:
            break
    return runs


@contextmanager
def recording(sent: Sent) -> Iterator[None]:
    """Keep what the store sends, so that the plain script can send the very same rows."""
    send = Neo4jTransaction.send

    def kept(self: Neo4jTransaction, name: str, /, **values: object) -> neo4j.Result:
        if name in PLAIN:
            sent.append((name, list(values["rows"])))  # type: ignore[call-overload]
        return send(self, name, **values)

    Neo4jTransaction.send = kept  # type: ignore[method-assign]
    try:
        yield
    finally:
        Neo4jTransaction.send = send  # type: ignore[method-assign]


def send_plainly(to: Server, sent: Sent) -> None:
    def work(tx: neo4j.ManagedTransaction) -> None:
        for name, rows in sent:
            tx.run(PLAIN[name], rows=rows).consume()  # type: ignore[arg-type]

    with to.driver.session(database=to.login.database) as session:
        session.execute_write(work)


def part_write(to: Server, arguments: argparse.Namespace) -> dict[str, object]:
    runs = recorded(arguments.runs, 3_000)
    vectors = embed_texts(runs, EMBEDDER)
    for text in PLAIN_SCHEMA:
        to.run(text)
    batches = [runs[start : start + BATCH] for start in range(0, len(runs), BATCH)]
    sent: list[Sent] = [[] for _ in batches]
    ours: list[float] = []
    plain: list[float] = []
    # The first round records what is sent, and warms the server: its statements are compiled while they run.
    for turn in range(arguments.rounds + 1):
        to.empty()
        store = to.store()
        spent = [0.0, 0.0]
        for batch, rows in zip(batches, sent, strict=True):
            started = time.perf_counter()
            with recording(rows) if not turn else nullcontext():
                store.add(batch, vectors, namespace="bench", replay=replay_with(EMBEDDER), embedder=EMBEDDER.name)
            spent[0] += time.perf_counter() - started
            started = time.perf_counter()
            send_plainly(to, rows)
            spent[1] += time.perf_counter() - started
        store.close()
        if turn:
            ours.append(len(runs) / spent[0])
            plain.append(len(runs) / spent[1])
    return {
        "runs": len(runs),
        "runs a transaction": BATCH,
        "hepm_runs_per_s": round(statistics.median(ours)),
        "baseline plain script_runs_per_s": round(statistics.median(plain)),
        "rate over baseline": round(statistics.median(ours) / statistics.median(plain), 2),
    }


def part_open(to: Server, arguments: argparse.Namespace) -> dict[str, object]:
    to.empty()
    store = to.store()
    fill(to, arguments.tools, arguments.edges, arguments.states)
    store.close()
    ours: list[float] = []
    raw: list[float] = []
    for _ in range(4):
        started = time.perf_counter()
        with Memory.open(to.login.uri, auth=(to.login.username, to.login.password)) as memory:
            memory.mirror("bench")
        ours.append(time.perf_counter() - started)
        started = time.perf_counter()
        read_raw(to)
        raw.append(time.perf_counter() - started)
    return {
        "tools": arguments.tools,
        "edges": arguments.edges,
        "states": arguments.states,
        "open_s": round(statistics.median(ours[1:]), 2),
        "baseline raw driver_s": round(statistics.median(raw[1:]), 2),
        "ratio": round(statistics.median(ours[1:]) / statistics.median(raw[1:]), 2),
    }


def read_raw(to: Server) -> None:
    with (
        neo4j.GraphDatabase.driver(to.login.uri, auth=(to.login.username, to.login.password)) as driver,
        driver.session(database=to.login.database, fetch_size=5000) as session,
    ):
        for text in (
            "MATCH (a:Tool)-[r:NEXT]->(b:Tool) "
            "RETURN a.name, b.name, r.support, r.inverse_steps, r.failures, r.unlabelled",
            "MATCH (s:State) RETURN s.id, s.sources, s.targets, s.success, s.key, s.count, s.seen, s.trajectory, "
            "s.step, s.vector",
        ):
            list(session.run(text))  # type: ignore[arg-type]


def fill(to: Server, tools: int, edges: int, states: int) -> None:
    """Tools, edges and states written straight: what many runs would leave behind."""
    from hepm.graph.neo4j.connection import uid

    random = np.random.default_rng(SEED)
    space = uid("bench")
    names = [f"tool_{number:05d}" for number in range(tools)]
    keys = [uid(space, "tool", name) for name in names]
    base = {"namespace": "bench", "space": space}
    to.run("CREATE (:Namespace {space: $space, name: 'bench', last_run: 0, last_state: $n})", space=space, n=states)
    rows: list[dict[str, Any]] = [
        {"uid": key, "name": name, "calls": 9, "errors": 0, "description": "", "parameters": "{}", **base}
        for key, name in zip(keys, names, strict=True)
    ]
    send(to, "UNWIND $rows AS row CREATE (t:Tool) SET t = row", rows)
    pairs: list[tuple[int, int]] = []
    for source in range(tools):
        pairs += [(source, int(target)) for target in random.choice(tools, edges // tools, replace=False)]
    rows = [
        {"a": keys[a], "b": keys[b], "p": {"support": 3, "inverse_steps": 3 << 29, "failures": 1, "unlabelled": 0}}
        for a, b in pairs
    ]
    send(
        to,
        "UNWIND $rows AS row MATCH (a:Tool {uid: row.a}) MATCH (b:Tool {uid: row.b}) "
        "CREATE (a)-[r:NEXT]->(b) SET r = row.p",
        rows,
    )
    vectors = random.normal(size=(1000, EMBEDDER.dimensions)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    blobs = [to_bytes(vector) for vector in vectors]
    rows = []
    for number in range(1, states + 1):
        a, b = pairs[number % len(pairs)]
        rows.append(
            {
                "uid": f"{number:024d}", "id": number, "move": f"{a} {b}", "key": number, "count": 1, "seen": 0.0,
                "sources": [names[a]], "targets": [names[b]], "success": True, "kept": True, "trajectory": "run",
                "step": 0, "summary": f"state {number}", "vector": blobs[number % 1000], **base,
            }
        )  # fmt: skip
    send(to, "UNWIND $rows AS row CREATE (s:State) SET s = row", rows)


def send(to: Server, text: str, rows: Sequence[Any]) -> None:
    for start in range(0, len(rows), 5_000):
        to.run(text, rows=rows[start : start + 5_000])


PARTS = {"write": part_write, "open": part_open}


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--part", choices=PARTS, action="append")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tools", type=int, default=5_000)
    parser.add_argument("--edges", type=int, default=200_000)
    parser.add_argument("--states", type=int, default=100_000)
    arguments = parser.parse_args()
    with server() as to:
        for name in arguments.part or PARTS:
            print(json.dumps(about("server") | {"part": name, **PARTS[name](to, arguments)}), flush=True)
        to.empty()


if __name__ == "__main__":
    main()
