"""Most similar state of the best two tools against plain numpy (one product, then each tool's maximum).

python benchmarks/nearest.py [RUNS] [--kind lexical|dense] [--sizes 200 2000 20000 100000]

Prints one JSON line per size. Lexical: the state texts of recorded runs, embedded by the default embedder, and varied
until there are enough (numbers changed, words dropped and exchanged); queries are varied texts of which none is in the
block. Dense: texts varied likewise in the space of a sentence model (see `dense`). The searches run in turns, so that
what else the machine does meets all; each takes one BLAS thread. Two tools are what a suggestion asks for by default.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # two threads on a busy machine wait for each other, up to 8 ms
os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import random
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from parts.measured import about, options, read_records

from hepm.embed import Float32Array, HashingEmbedder
from hepm.graph.mirror.nearest import Nearest, StateBlock
from hepm.ingest.transitions import transitions

QUERIES = 200


def recorded_states(folder: Path) -> dict[str, list[tuple[str, ...]]]:
    """Which tools followed each distinct state text."""
    followed: dict[str, list[tuple[str, ...]]] = {}
    for _, run in read_records(folder):
        for transition in transitions(run):
            followed.setdefault(transition.state.text, []).append(transition.targets)
    return followed


def varied(text: str, words: Sequence[str], rng: random.Random) -> str:
    parts = re.split(r"(\W+)", text)
    for i, part in enumerate(parts):
        if any(letter.isdigit() for letter in part):
            parts[i] = "".join(rng.choice("0123456789") if c.isdigit() and rng.random() < 0.5 else c for c in part)
        elif len(part) > 1 and (chance := rng.random()) < 0.16:
            parts[i] = rng.choice(words) if chance < 0.08 else ""
    return "".join(parts)


def lexical(size: int, folder: Path) -> tuple[Float32Array, list[list[int]], Float32Array]:
    """Vectors, targets, queries."""
    rng = random.Random(7)
    followed = recorded_states(folder)
    texts = sorted(followed)
    rng.shuffle(texts)
    words = [word for text in texts for word in re.findall(r"\w\w+", text)]
    numbers: dict[str, int] = {}
    held_out, kept = texts[: len(texts) // 10], texts[len(texts) // 10 :]
    bases = [rng.choice(kept) for _ in range(size)]
    targets = [
        sorted({numbers.setdefault(tool, len(numbers)) for tool in rng.choice(followed[text])}) for text in bases
    ]
    embedder = HashingEmbedder()
    vectors = embedder.embed([varied(text, words, rng) for text in bases])
    return vectors, targets, embedder.embed([varied(rng.choice(held_out), words, rng) for _ in range(QUERIES)])


def dense(size: int, dimensions: int = 384, tools: int = 30) -> tuple[Float32Array, list[list[int]], Float32Array]:
    """Vectors, targets, queries: clusters within clusters, coordinates that fade like those of all-MiniLM-L6-v2."""
    rng = np.random.default_rng(7)
    spread_D = np.arange(1, dimensions + 1) ** -0.5

    def around(centres_ND: Float32Array, share: float) -> Float32Array:
        moved = np.sqrt(1 - share) * centres_ND + np.sqrt(share) * unit(rng.normal(size=centres_ND.shape) * spread_D)
        return unit(moved)

    topics = unit(rng.normal(size=(40, dimensions)) * spread_D)
    situations = around(topics[rng.integers(0, len(topics), 4000)], 0.5)
    of_state = rng.integers(0, len(situations) - 400, size)  # the last 400 situations are for queries only
    vectors = around(situations[of_state], 0.3)
    usual = rng.zipf(1.3, len(situations)) % tools
    targets = [[int(usual[i])] for i in of_state]
    return vectors, targets, around(situations[-rng.integers(1, 400, QUERIES)], 0.3)


def unit(vectors_ND: np.ndarray) -> Float32Array:
    return (vectors_ND / np.linalg.norm(vectors_ND, axis=1, keepdims=True)).astype(np.float32)


def plain(vectors_ND: Float32Array, targets: Sequence[Sequence[int]]) -> Callable[[Float32Array], list[Nearest]]:
    """What one would write without hepm: states by tool, one product, the maximum of each tool's part."""
    pairs = sorted((target, row) for row, several in enumerate(targets) for target in several)
    rows_P = np.array([row for _, row in pairs])
    present, starts = np.unique([target for target, _ in pairs], return_index=True)
    edges = [*starts.tolist(), len(pairs)]

    def best(query_D: Float32Array) -> list[Nearest]:
        cosines_P = (vectors_ND @ query_D)[rows_P]
        found: list[Nearest] = []
        for target, start, stop in zip(present.tolist(), edges[:-1], edges[1:], strict=True):
            at = start + int(cosines_P[start:stop].argmax())
            found.append(Nearest(target, float(cosines_P[at])))
        return found

    return best


def measure(kind: str, vectors_ND: Float32Array, targets: list[list[int]], queries: Float32Array) -> dict[str, object]:
    """Milliseconds of both, in turns, and how many of the best two tools hepm finds with their cosines."""
    block = StateBlock()
    block.extend(vectors_ND, targets)
    baseline = plain(vectors_ND, targets)
    times: dict[str, list[float]] = {"numpy": [], "hepm": []}
    found = sought = 0
    for query in queries:
        # The baseline reads every vector first: the search finds nothing in a cache that the one before it left there.
        right, took = timed(baseline, query)
        times["numpy"].append(took)
        answer, took = timed(lambda query: block.best(query, most=2), query)
        times["hepm"].append(took)
        cosines = {one.target: one.cosine for one in right}
        given = {one.target: one.cosine for one in answer}
        second = sorted(cosines.values())[-2:][0]
        asked = [target for target, cosine in cosines.items() if cosine >= second]
        # Equal but for rounding counts as found.
        found += sum(abs(given.get(target, -1) - cosines[target]) < 1e-5 for target in asked)
        sought += len(asked)
    milliseconds = {f"{name}_ms": round(1e3 * float(np.median(several)), 4) for name, several in times.items()}
    size = {"kind": kind, "states": len(vectors_ND), "tools": len({target for some in targets for target in some})}
    return about("nearest") | size | milliseconds | {"recall": round(found / sought, 5)}


def timed(search: Callable[[Float32Array], list[Nearest]], query: Float32Array) -> tuple[list[Nearest], float]:
    """What it finds, and seconds."""
    started = time.perf_counter()
    found = search(query)
    return found, time.perf_counter() - started


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--kind", choices=["lexical", "dense"], action="append")
    parser.add_argument("--sizes", type=int, nargs="+", default=[200, 2000, 20_000, 100_000])
    asked = parser.parse_args()
    for kind in asked.kind or ["lexical", "dense"]:
        most = max(asked.sizes)
        vectors, targets, queries = lexical(most, asked.runs) if kind == "lexical" else dense(most)
        for size in asked.sizes:
            print(json.dumps(measure(kind, vectors[:size], targets[:size], queries)), flush=True)


if __name__ == "__main__":
    sys.exit(main())
