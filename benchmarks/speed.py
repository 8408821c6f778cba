"""Speed of suggestions, opening and ingest, each beside a baseline in the same run.

usage: python benchmarks/speed.py [RUNS] [--tools 5000] [--edges 200000] [--states 500000] [--part NAME]...

Parts: suggest (procedural against sorting NetworkX's edges), hybrid (in a memory of the recorded RUNS), open (against a
bare cursor over the same rows), ingest (RUNS against decompressing and parsing the same bytes with the standard
library), lessons (the top 3 of 14,000 principles against a plain product; EvolveR reports 60 ms), start (importing hepm
against a bare Python). Prints one JSON line a part; RUNS is $HEPM_RECORDED_RUNS, else ../shared/data.
"""

from __future__ import annotations

import argparse
import io
import json
import lzma
import os
import sqlite3
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: two threads on a busy machine wait for each other

import networkx as nx
import numpy as np
from parts.measured import about, options, read_records

from hepm import Memory, Turn
from hepm.experience.lessons import Principle
from hepm.graph.lessons.transaction import LessonChange
from hepm.graph.mirror.lesson_mirror import LessonMirror
from hepm.graph.sqlite import SQLiteStore
from hepm.ingest.prepare import IngestOptions
from hepm.ingest.side_by_side import usable_cores
from hepm.ingest.transitions import agent_state
from hepm.policy import Episodic, Procedural, Query
from hepm.policy.query import Floors

SEED = 7
DIMENSIONS = 512


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--tools", type=int, default=5000)
    parser.add_argument("--edges", type=int, default=200_000)
    parser.add_argument("--states", type=int, default=500_000)
    parser.add_argument("--part", action="append", choices=PARTS)
    arguments = parser.parse_args()
    for part in arguments.part or PARTS:
        print(json.dumps(about("speed") | {"part": part, **PARTS[part](arguments)}), flush=True)


def micros(function: Callable[[], object], repeats: int = 300) -> dict[str, float]:
    """Median and 95th percentile, microseconds."""
    times: list[float] = []
    for _ in range(repeats):
        started = time.perf_counter()
        function()
        times.append(1e6 * (time.perf_counter() - started))
    return {"median_us": round(statistics.median(times), 1), "p95_us": round(float(np.percentile(times, 95)), 1)}


def big_store(path: Path, arguments: argparse.Namespace) -> None:
    """Tools, edges and states written straight into the tables: what many runs would leave behind."""
    random = np.random.default_rng(SEED)
    SQLiteStore(path).close()
    store = SQLiteStore(path)
    store.set_embedder("hepm/hash-512", DIMENSIONS)
    store.close()
    names = [f"tool_{number:05d}" for number in range(arguments.tools)]
    database = sqlite3.connect(path)
    database.executemany(
        "INSERT INTO tool (namespace, name, description, parameters, calls, errors) VALUES ('big', ?, '', '{}', 9, 0)",
        [(name,) for name in names],
    )
    per_tool = arguments.edges // arguments.tools
    popular = np.arange(1, arguments.tools + 1) ** -0.6
    popular /= popular.sum()
    edges: list[tuple[str, str, int, int, int]] = []
    for source in names:
        for target in random.choice(arguments.tools, per_tool, replace=False, p=popular):
            support = int(random.integers(1, 50))
            edges.append((source, names[target], support, support << 29, int(random.integers(0, 9))))
    database.executemany("INSERT INTO edge VALUES ('big', ?, ?, ?, ?, ?, 0)", edges)
    vector = random.normal(size=(1000, DIMENSIONS))
    blobs = [(row / np.linalg.norm(row)).astype("<f2").tobytes() for row in vector]
    for start in range(0, arguments.states, 50_000):
        rows = range(start + 1, min(start + 50_000, arguments.states) + 1)
        of = [edges[row % len(edges)] for row in rows]
        database.executemany(
            "INSERT INTO state (id, namespace, sources, targets, success, key, count, seen, trajectory, step, summary)"
            " VALUES (?, 'big', ?, ?, 1, ?, 1, 0.0, 'run', 0, ?)",
            [
                (row, json.dumps([edge[0]]), json.dumps([edge[1]]), row, f"state {row}")
                for row, edge in zip(rows, of, strict=True)
            ],
        )
        database.executemany("INSERT INTO vector VALUES (?, ?)", [(row, blobs[row % 1000]) for row in rows])
    database.commit()
    database.close()


def part_suggest(arguments: argparse.Namespace) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "big.hepm"
        big_store(path, arguments)
        with Memory.open(path) as memory:
            tool = "tool_00042"
            graph = memory.graph(namespace="big")
            weigh = nx.DiGraph()
            weigh.add_weighted_edges_from(graph.out_edges(tool, data="weight"))
            policy, mirror = Procedural(), memory.mirror("big")
            vector = memory.embedder.embed(["a state"])[0]
            memory.suggest(tool, policy="procedural", namespace="big")
            episodic = Query(after=(tool,), history=(tool,), vector=vector)
            memory.suggest(tool, state="a state", policy="episodic", namespace="big")
            plain = micros(lambda: sorted(graph[tool].items(), key=lambda edge: -edge[1]["weight"])[:2])
            asked = micros(lambda: policy.suggest(mirror, Query(after=(tool,), history=(tool,))))
            through = micros(lambda: memory.suggest(tool, policy="procedural", namespace="big"))
            similar = micros(lambda: Episodic(floors=Floors(similarity=-1)).suggest(mirror, episodic))
            states = len(mirror.block(tool))
            size = mirror.block(tool).nbytes / (states * DIMENSIONS * 4)
    return {
        "procedural": asked,
        "memory.suggest procedural": through,
        "baseline sorted(G[a].items()) by weight": plain,
        "episodic, vector ready": similar | {"states": states},
        "block bytes / vector bytes": round(size, 3),
    }


def part_hybrid(arguments: argparse.Namespace) -> dict[str, object]:
    """Suggestions in a memory of recorded runs: the first one of a process, further ones, and one from the shell."""
    records = [run for _, run in read_records(arguments.runs)]
    asked = [run.turns[:at] for run in records[:: len(records) // 150 or 1] for at in [len(run.turns) // 2] if at]
    with tempfile.TemporaryDirectory() as folder:
        with Memory.open(folder) as memory:
            memory.ingest(records)
            memory.prepare()
        started = time.perf_counter()
        with Memory.open(folder) as memory:
            suggested = [suggest_after(memory, turns) for turns in asked]
        command = [sys.executable, "-m", "hepm", "suggest", "--state", "wants a refund", "--store", folder]
        shell = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        ended = time.perf_counter()
    return {
        "runs": len(records),
        "first_s": round(suggested[0] - started, 2),
        "further_ms": round(1e3 * statistics.median(np.diff(suggested)), 2),
        "shell_s": round(ended - shell, 2),
    }


def suggest_after(memory: Memory, turns: Sequence[Turn]) -> float:
    """Ask after these turns; the time when the answer was there."""
    now = agent_state(turns)
    memory.suggest(now.last, history=now.history, state=now.state())
    return time.perf_counter()


def part_open(arguments: argparse.Namespace) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "big.hepm"
        big_store(path, argparse.Namespace(**{**vars(arguments), "states": 0}))
        ours: list[float] = []
        bare: list[float] = []
        for _ in range(7):
            started = time.perf_counter()
            with Memory.open(path) as memory:
                memory.mirror("big")
                ours.append(time.perf_counter() - started)
            started = time.perf_counter()
            database = sqlite3.connect(path)
            database.execute(
                "SELECT source, target, support, inverse_steps, failures, unlabelled FROM edge "
                "WHERE namespace = 'big' ORDER BY source, target"
            ).fetchall()
            database.close()
            bare.append(time.perf_counter() - started)
    return {
        "edges": arguments.edges,
        "open_s": round(statistics.median(ours), 3),
        "baseline bare cursor_s": round(statistics.median(bare), 3),
        "ratio": round(statistics.median(ours) / statistics.median(bare), 2),
    }


def parse_with_the_standard_library(root: Path) -> None:
    for path in sorted(root.rglob("*")):
        if not path.is_file() or not any(part in path.name for part in (".json", ".tar")):
            continue
        content = path.read_bytes()
        if path.suffix == ".xz":
            content = lzma.decompress(content)
        if ".tar" in path.name:
            with tarfile.open(fileobj=io.BytesIO(content)) as archive:
                for member in archive:
                    opened = archive.extractfile(member)
                    if opened:
                        json.loads(opened.read())
            continue
        try:
            json.loads(content)
        except json.JSONDecodeError:
            for line in content.splitlines():
                if line.strip():
                    json.loads(line)


def part_ingest(arguments: argparse.Namespace) -> dict[str, object]:
    if not arguments.runs.is_dir():
        return {"skipped": f"no recorded runs in {arguments.runs}"}
    plain: list[float] = []
    ours: dict[bool, list[float]] = {False: [], True: []}
    stored = 0
    for _ in range(3):
        started = time.perf_counter()
        parse_with_the_standard_library(arguments.runs)
        plain.append(time.perf_counter() - started)
        for vectors, times in ours.items():
            with tempfile.TemporaryDirectory() as folder, Memory.open(folder) as memory:
                started = time.perf_counter()
                stored = memory.ingest(
                    arguments.runs, options=IngestOptions(vectors=vectors, processes=usable_cores())
                ).stored
                times.append(time.perf_counter() - started)
    base = statistics.median(plain)
    without, with_vectors = (statistics.median(ours[vectors]) for vectors in (False, True))
    return {
        "runs": stored,
        "baseline decompress and parse_s": round(base, 2),
        "without vectors_s": round(without, 2),
        "ratio without vectors": round(without / base, 2),
        "with lexical vectors_s": round(with_vectors, 2),
        "ratio with vectors": round(with_vectors / base, 2),
    }


def part_lessons(arguments: argparse.Namespace) -> dict[str, object]:
    """Vectors that are clustered, as those of a sentence model are, of 384 dimensions; searches in turns."""
    del arguments
    random = np.random.default_rng(SEED)
    topics = random.normal(size=(400, 384))
    drawn = topics[random.integers(0, len(topics), 14_300)] + random.normal(size=(14_300, 384))
    unit = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)
    vectors, queries = unit[:14_000], unit[14_000:]
    texts = [f"principle {number}" for number in range(len(vectors))]
    times: dict[str, list[float]] = {"top 3 in memory_ms": [], "baseline plain product_ms": []}
    with tempfile.TemporaryDirectory() as folder, Memory.open(folder) as memory:
        store = memory.lessons.store
        store.set_embedder("bench/dense", 384)
        rows = [Principle("guiding", text).row() for text in texts]
        for at in range(0, len(rows), 1_000):
            given = dict(zip(texts[at : at + 1_000], vectors[at : at + 1_000], strict=True))
            store.lessons.change(LessonChange(put=rows[at : at + 1_000]), given, namespace="default")
        mirror = LessonMirror(store, "default")
        for query in queries:
            for name, search in (
                ("top 3 in memory_ms", lambda query=query: mirror.search(query, "principle", limit=3)),
                ("baseline plain product_ms", lambda query=query: np.argpartition(-(vectors @ query), 3)[:3]),
            ):
                started = time.perf_counter()
                search()
                times[name].append(1e3 * (time.perf_counter() - started))
    return {"principles": len(texts)} | {name: round(statistics.median(took), 3) for name, took in times.items()}


def part_start(arguments: argparse.Namespace) -> dict[str, object]:
    del arguments

    def seconds(code: str) -> float:
        times: list[float] = []
        for _ in range(9):
            started = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            times.append(time.perf_counter() - started)
        return statistics.median(times)

    bare = seconds("pass")
    return {
        "bare python_ms": round(1e3 * bare),
        "import hepm, over bare_ms": round(1e3 * (seconds("import hepm") - bare)),
        "from hepm import Memory, over bare_ms": round(1e3 * (seconds("from hepm import Memory") - bare)),
    }


PARTS: dict[str, Callable[[argparse.Namespace], dict[str, object]]] = {
    "suggest": part_suggest,
    "hybrid": part_hybrid,
    "open": part_open,
    "ingest": part_ingest,
    "lessons": part_lessons,
    "start": part_start,
}

if __name__ == "__main__":
    main()
