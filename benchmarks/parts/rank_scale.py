"""What a training epoch and a suggestion of the ranker cost in a memory of many tools, edges and states."""

from __future__ import annotations

import gc
import json
import multiprocessing
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import torch

from hepm.embed import HashingEmbedder
from hepm.graph.delta import StatePlace
from hepm.graph.rows import Float32Array, RunRow
from hepm.graph.store import Store
from hepm.lab.rank.data import graph_of
from hepm.lab.rank.train import Epoch, TrainOptions, export, train
from hepm.policy import Query
from hepm.rank.calls import RankerCalls, RankerQuery, read_calls
from hepm.rank.ranker import Ranker
from hepm.types import StateSummary

SIZES = ((2_500, 100_000, 250_000), (5_000, 200_000, 500_000))  # tools, edges, states
CALLS, RUNS_A_TASK, DIMENSIONS = 10, 5, 512
NOISE = 8.0  # of a state, beside the direction of the tool that is called next
AT_ONCE = 1_000  # runs
EPOCHS = 2


def walks(tools: int, edges: int, states: int) -> Iterator[tuple[list[RunRow], Float32Array]]:
    """Runs over a random graph in which each tool has equally many successors; every state hints at the next tool."""
    rng = np.random.default_rng(0)
    after = rng.integers(tools, size=(tools, edges // tools))
    meant = rng.standard_normal((tools, DIMENSIONS)).astype(np.float32)
    count = 0
    for first in range(0, states // CALLS, AT_ONCE):
        runs: list[RunRow] = []
        called: list[int] = []
        for run in range(first, min(first + AT_ONCE, states // CALLS)):
            success, here, steps = bool(rng.random() < 0.7), int(rng.integers(tools)), []
            for _ in range(CALLS):
                here = int(rng.choice(after[here]))
                count += 1
                steps.append(([f"tool_{here}"], 0, count))
                called.append(here)
            said = meant[called[-1]] / np.linalg.norm(meant[called[-1]])
            runs.append(RunRow(run + 1, str(run), success, json.dumps(steps), "", "", "", "", said))
        vectors = meant[called] + NOISE * rng.standard_normal((len(called), DIMENSIONS)).astype(np.float32)
        yield runs, vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


class Walked:
    """What a store answers of such walks; vectors lie in a mapped file."""

    header = SimpleNamespace(dimensions=DIMENSIONS)

    def __init__(self, size: tuple[int, int, int]) -> None:
        self._runs: list[RunRow] = []
        with tempfile.TemporaryFile() as file:
            self._vectors_SD = np.memmap(file, np.float32, "w+", shape=(size[2], DIMENSIONS))
        for runs, vectors in walks(*size):
            first = CALLS * len(self._runs)
            self._vectors_SD[first : first + len(vectors)] = vectors
            self._runs += runs

    def runs_after(self, seq: int, *, namespace: str) -> list[RunRow]:
        return self._runs[seq:]

    def states_at(self, places: Sequence[StatePlace], *, namespace: str) -> tuple[Sequence[StatePlace], Float32Array]:
        return places, self._vectors_SD[[key - 1 for _, key in places]]


def held(what: str) -> int:
    """MiB that this process holds now: `RssAnon`, or `RssFile`, which the system may write out."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith(what))


class Peak(threading.Thread):
    """The most memory that is held, but for mapped files, until it is stopped."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most, self._done = held("RssAnon"), threading.Event()
        self.start()

    def run(self) -> None:
        while not self._done.wait(0.005):
            self.most = max(self.most, held("RssAnon"))

    def stop(self) -> int:
        self._done.set()
        return self.most


def measure(size: tuple[int, int, int], model: str, threads: int) -> Mapping[str, object]:
    """Times in s or ms, memory in MiB; `training adds` is the peak of training above what held the data.

    Vectors of states lie in a mapped file, as those of a large memory do: they count apart.
    """
    torch.set_num_threads(threads)
    calls, embedder = read_calls(cast(Store, Walked(size)), ""), HashingEmbedder()
    tasks = {run: f"task {int(run) // RUNS_A_TASK}" for run in calls.run_ids}
    started = time.perf_counter()
    data = graph_of(calls, {}, tasks, embedder)
    made = time.perf_counter() - started
    edges, tools = data["tool", "next", "tool"].edge_index.shape[1], len(data["tool"].name)
    gc.collect()
    before = held("RssAnon")
    ends = [(time.perf_counter(), time.process_time())]
    losses: list[float] = []

    def seen(epoch: Epoch) -> None:
        ends.append((time.perf_counter(), time.process_time()))
        losses.append(epoch.held_out_loss)

    peak = Peak()
    network = train(data, TrainOptions(model, epochs=EPOCHS), on_epoch=seen)
    most = peak.stop()
    weights = export(network, data)
    ranker = Ranker(weights, data["tool"].name)
    return {
        "tools, edges, states": [tools, edges, size[2]],
        "graph s": round(made, 1),
        "epoch s, CPU s": [[round(b - a, 1) for a, b in zip(*of, strict=True)] for of in pairwise(ends)],
        "loss": [round(loss, 3) for loss in losses],
        "data MiB": before,
        "training adds MiB": most - before,
        "mapped MiB": held("RssFile"),
        **suggestion(ranker, calls),
    }


def suggestion(ranker: Ranker, calls: RankerCalls) -> Mapping[str, object]:
    """Scores of all tools at recorded situations, with encodings made before."""
    here, names = ranker.on(calls), list(calls.number)
    rng, took = np.random.default_rng(0), list[float]()
    for row in rng.choice(np.flatnonzero(calls.position_N > 3), 300).tolist():
        called = [names[tool] for tool in calls.next_N[row - calls.position_N[row] : row]]
        state = calls.states_SD[calls.state_N[row]]
        [query] = RankerQuery.each_of(Query((called[-1],), tuple(called), StateSummary(), state), calls)
        started = time.thread_time()
        ranker.scores(here, query, names)
        took.append(1e3 * (time.thread_time() - started))
    return {"scores CPU ms, median and 90 %": np.percentile(took, [50, 90]).round(2).tolist()}


def report(model: str, threads: int) -> Iterator[str]:
    """One JSON line for each size, each measured in a process of its own."""
    for size in SIZES:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            yield json.dumps(dict(pool.apply(measure, (size, model, threads))))
