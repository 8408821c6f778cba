"""Top 3 of 14,000 principles, in memory, against a plain product; EvolveR reports 60 ms.

usage: python benchmarks/principles.py [RUNS] [--principles 14000] [--kind lexical|dense]

RUNS is a folder of recorded runs ($HEPM_RECORDED_RUNS, else ../shared/data). Prints one JSON line a kind. Vectors are
ready; all searches of a query run in turns, so that what else the machine does meets all, each on one BLAS thread.
Lexical: the principles of the recorded runs, varied in their tools until there are enough; queries are varied
likewise. Dense: 384 coordinates that fade like those of all-MiniLM-L6-v2 (benchmarks/nearest.py). The plain product is
over the same vectors unweighted, then `argpartition`. "text" is all of `Principles.search`: embedding the text, and
writing down what was found.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from nearest import dense

from hepm.embed import Float32Array, HashingEmbedder
from hepm.experience.extractive import distill_principles
from hepm.experience.lesson_bank import LessonBank
from hepm.experience.lessons import Principle
from hepm.experience.principles import Principles
from hepm.graph.lessons.transaction import LessonChange
from hepm.graph.mirror.lesson_mirror import LessonMirror
from hepm.graph.mirror.mirror import Mirror
from hepm.graph.sqlite import SQLiteStore
from hepm.graph.store import Store
from hepm.ingest import read_runs
from hepm.types import Trajectory

SEED = 7
QUERIES = 300
TOP = 3
NAMESPACE = "bench"
BATCH = 1_000
EMBEDDER = HashingEmbedder()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "runs", nargs="?", type=Path, default=Path(os.environ.get("HEPM_RECORDED_RUNS", "../shared/data"))
    )
    parser.add_argument("--principles", type=int, default=14_000)
    parser.add_argument("--kind", choices=["lexical", "dense"], action="append")
    asked = parser.parse_args()
    for kind in asked.kind or ["lexical", "dense"]:
        made = (lexical if kind == "lexical" else clustered)(asked.runs, asked.principles)
        print(json.dumps(measure(kind, *made)), flush=True)


def lexical(runs: Path, count: int) -> tuple[dict[str, Float32Array], Float32Array, list[str]]:
    """Vectors by sentence, queries, and their texts."""
    rng = random.Random(SEED)
    tasks: dict[tuple[str, str], list[Trajectory]] = {}
    for _, run in read_runs([runs]):
        if isinstance(run, Trajectory):
            tasks.setdefault((run.environment, run.task or run.id), []).append(run)
    told = sorted({one.text: one for of_task in tasks.values() for one in distill_principles(of_task)}.items())
    tools = sorted({tool for _, one in told for tool in one.tools})
    sentences: dict[str, None] = dict.fromkeys(text for text, _ in told)
    while len(sentences) < count + QUERIES:
        sentences.setdefault(varied(rng.choice(told)[1], tools, rng))
    texts = list(sentences)
    rng.shuffle(texts)
    vectors = EMBEDDER.embed(texts[:count])
    asked = texts[count : count + QUERIES]
    return dict(zip(texts[:count], vectors, strict=True)), EMBEDDER.embed(asked), asked


def varied(principle: Principle, tools: Sequence[str], rng: random.Random) -> str:
    """The same sentence about other tools."""
    changed = {tool: rng.choice(tools) for tool in principle.tools if rng.random() < 0.5}
    return "".join(changed.get(word, word) for word in _pieces(principle.text))


def _pieces(text: str) -> list[str]:
    found: list[str] = []
    for word in text.replace(",", " ,").replace(".", " .").split(" "):
        found += [word, " "]
    return found[:-1]


def clustered(runs: Path, count: int) -> tuple[dict[str, Float32Array], Float32Array, list[str]]:
    del runs
    vectors, _, queries = dense(count)
    return {f"principle {number}": vector for number, vector in enumerate(vectors)}, queries, []


def fill(store: Store, principles: dict[str, Float32Array]) -> float:
    """Seconds that it took."""
    rows = [Principle("guiding", text).row() for text in principles]
    started = time.perf_counter()
    for at in range(0, len(rows), BATCH):
        part = rows[at : at + BATCH]
        vectors = {row.text: principles[row.text] for row in part}
        store.lessons.change(LessonChange(put=part), vectors, namespace=NAMESPACE)
    return time.perf_counter() - started


def plain(vectors_ND: Float32Array, ids: Sequence[str]) -> Callable[[Float32Array], list[str]]:
    """What one would write without hepm."""

    def search(query_D: Float32Array) -> list[str]:
        cosines_N = vectors_ND @ query_D
        best = np.argpartition(-cosines_N, TOP)[:TOP]
        return [ids[at] for at in best[np.argsort(-cosines_N[best], kind="stable")]]

    return search


def measure(
    kind: str, principles: dict[str, Float32Array], queries: Float32Array, texts: Sequence[str]
) -> dict[str, object]:
    vectors_ND = np.stack(list(principles.values()))
    ids = [Principle("guiding", text).id for text in principles]
    told: dict[str, object] = {
        "benchmark": "principles",
        "kind": kind,
        "principles": len(ids),
        "dimensions": vectors_ND.shape[1],
        "seed": SEED,
        "commit": _commit(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
    }
    searches: dict[str, Callable[[int], Sequence[str]]] = {}
    baseline = plain(vectors_ND, ids)
    searches["numpy"] = lambda at: baseline(queries[at])
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        store = SQLiteStore(Path(folder) / "bench.hepm")
        opened.callback(store.close)
        store.set_embedder(EMBEDDER.name if texts else "bench/dense", vectors_ND.shape[1])
        told["file_fill_s"] = round(fill(store, principles), 2)
        started = time.perf_counter()
        mirror = LessonMirror(store, NAMESPACE)
        told["memory_open_s"] = round(time.perf_counter() - started, 3)
        searches["memory"] = lambda at: [one.row.id for one, _ in mirror.search(queries[at], "principle", limit=TOP)]
        if texts:
            found = Principles(LessonBank(store, Mirror(store), lambda: EMBEDDER, lambda: EMBEDDER))
            searches["text"] = lambda at: [one.id for one in found.search(texts[at], namespace=NAMESPACE)]
        times = in_turns(searches, len(queries))
    for name, seconds in times.items():
        told[f"{name}_ms"] = [round(float(at), 3) for at in np.percentile(1000 * np.array(seconds), [50, 95])]
    told["memory_over_numpy"] = round(float(np.median(times["memory"]) / np.median(times["numpy"])), 2)
    return told


def _commit() -> str:
    asked = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return asked.stdout.strip() or "unknown"


def in_turns(searches: dict[str, Callable[[int], Sequence[str]]], queries: int) -> dict[str, list[float]]:
    """Seconds of each search, by query."""
    times: dict[str, list[float]] = {name: [] for name in searches}
    for at in range(queries):
        for name, search in searches.items():
            started = time.perf_counter()
            search(at)
            times[name].append(time.perf_counter() - started)
    return times


if __name__ == "__main__":
    sys.exit(main())
